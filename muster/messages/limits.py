"""This room holds how much one frame may carry, by who sends it; sizes are bytes as they travel."""

from typing import Final

import msgspec

FRAME_LIMIT_BYTES: Final = 64 * 1024
"""What a door of members reads from a stranger."""

SHORT_CHARACTERS: Final = FRAME_LIMIT_BYTES // 4
"""A text of no more characters is within that limit, however many bytes each has: nobody need count."""

BYTES_PER_PARTITION: Final = 48
"""An upper bound for one entry of offset_info; a member that owns much may say much."""

BYTES_PER_TOPIC: Final = 400
"""An upper bound for what surrounds the entries of one topic: its name and its id."""

MAX_FRAME_FROM_BROKER_BYTES: Final = 2 * 1024 * 1024
MAX_FRAME_TO_BROKER_BYTES: Final = 64 * 1024 * 1024
"""The longest is an answer: what became of an election of each of a hundred thousand partitions. One that is
longer would end the link of every broker that is asked, one after the other."""

LONGEST_RACK: Final = 249
"""Characters of the name of a broker's rack."""

MAX_ROWS_PER_FRAME: Final = 1_000
"""Rows of a kind in one chunk of a snapshot; partitions in one AlterPartition, in one ping."""

FRAMEFUL: Final = msgspec.Meta(max_length=MAX_ROWS_PER_FRAME)
"""Of what a broker tells row by row: a frame with more is refused as it is decoded."""

MAX_UNUSABLE_PER_HELLO: Final = 20_000
"""Logs that a broker cannot use and names in its hello, some 50 bytes each; of more it tells behind it."""

HELLOFUL: Final = msgspec.Meta(max_length=MAX_UNUSABLE_PER_HELLO)
"""Of these: a hello with more is refused as it is decoded. No broker says more, however much it holds."""

MAX_ROWS_PER_CHANGES: Final = 20_000
"""Partitions in one Changes frame; a turn that changed more is told in several, the last one complete."""


def inbound_limit_bytes(owned_partitions: int, owned_topics: int) -> int:
    """The frame limit for a registered member: what a stranger may say, and its own partitions by topic."""
    return FRAME_LIMIT_BYTES + BYTES_PER_PARTITION * owned_partitions + BYTES_PER_TOPIC * owned_topics


def bytes_of(frame: str | bytes) -> int:
    """The size of a frame as it travels; a text is counted in UTF-8, a lone surrogate as three bytes."""
    if isinstance(frame, bytes) or frame.isascii():
        return len(frame)
    return len(frame.encode("utf-8", "surrogatepass"))
