"""This room is one record as an application gets it, and what applications call a partition."""

from collections.abc import Mapping
from typing import NamedTuple


class TopicPartition(NamedTuple):
    """One partition of one topic; equal to the pair `(topic, partition)`, which may stand for it anywhere."""

    topic: str
    partition: int


Offsets = Mapping[TopicPartition, int] | Mapping[tuple[str, int], int]
"""Offsets by partition, as an application gives them."""


class Record(NamedTuple):
    """One record of a partition.

    `generation` is that of the group since which this member owns the partition: it changes when the
    partition was elsewhere in between. `tenure` rises within one Consumer whenever fetching a partition
    began anew, also without having been elsewhere: after an outage longer than the session it begins at
    the committed offset, so offsets rise within a tenure only, if the application does not seek and no
    other log takes the place of the one that is read.
    `timestamp_ms` is wall time, −1 if the producer gave none.
    """

    topic: str
    partition: int
    offset: int
    generation: int
    tenure: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]
