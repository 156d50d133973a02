"""This room is one record as an application gets it."""

from typing import NamedTuple


class Record(NamedTuple):
    """One record of a partition.

    `generation` is that of the group since which this member fetches the partition: it changes
    when the partition was elsewhere in between. `timestamp_ms` is wall time, −1 if the producer
    gave none.
    """

    topic: str
    partition: int
    offset: int
    generation: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]
