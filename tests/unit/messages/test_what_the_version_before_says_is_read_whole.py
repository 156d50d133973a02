"""Frames that the version of link protocol 4 made stay readable, and each of their fields is still said.

`frames_of_protocol_4.txt` holds one frame of each kind of that version, written by its own code with every
field stated, its direction before it. Nothing there is ever changed: a field that is gone, renamed, of
another type or, in a row without names, at another place shows here, before an older broker, node or SDK
meets it.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, get_args

import msgspec
import pytest

from muster.messages import codec
from muster.messages.link.condition import LogNote
from muster.messages.link.configs import ConfigChange
from muster.messages.link.from_broker import Arriving, FromBroker, HighWatermark
from muster.messages.link.losses import LossAsked, LossReport
from muster.messages.link.protocol import LINK_PROTOCOL, LOOKS_FOR_CALLERS, SHOWS_LOGS
from muster.messages.link.rows import AlikePartitions, PartitionRow
from muster.messages.link.to_broker import OngoingReassignment, ToBroker
from muster.messages.member import AssignedPartition, FromMember, PartitionError, PartitionOffset, ToMember

PROTOCOL: Final = LOOKS_FOR_CALLERS
KEPT: Final = Path(__file__).with_name("frames_of_protocol_4.txt")
READ_BY: Final[dict[str, Callable[[bytes], Any]]] = {
    "from_broker": codec.decode_from_broker,
    "to_broker": codec.decode_to_broker,
    "from_member": codec.decode_from_member,
    "to_member": codec.decode_to_member,
}
SAID: Final = {
    "from_broker": FromBroker,
    "to_broker": ToBroker,
    "from_member": FromMember,
    "to_member": ToMember,
}
KINDS_SINCE: Final = {"LogEnds": SHOWS_LOGS}
"""What was no kind of frame then, and from which protocol on it may be said."""

PLACES: Final[dict[type[msgspec.Struct], str]] = {
    HighWatermark: "topic_id partition high_watermark size_bytes",
    LogNote: "topic_id partition state why end_offset age_ms",
    Arriving: "topic_id partition held_bytes",
    LossReport: "topic_id partition leader_epoch end_offset cut_to high_watermark size_bytes",
    ConfigChange: "key change value",
    PartitionRow: "topic_id partition assigned leader leader_epoch isr version"
    " adding removing throttle base_epoch",
    LossAsked: "topic_id partition leader_epoch leader told",
    AlikePartitions: "topic_id assigned leader leader_epoch isr partitions"
    " adding removing throttle base_epoch",
    OngoingReassignment: "topic partition replicas adding removing",
    PartitionOffset: "partition offset generation",
    AssignedPartition: "partition offset",
    PartitionError: "partition error_code",
}
"""What travels without names, as its places were then."""


LINES: Final = [line.partition(" ")[::2] for line in KEPT.read_text(encoding="utf-8").splitlines()]
"""Direction and frame."""


def kind_of(frame: str) -> str:
    return str(msgspec.json.decode(frame)["type"])


def holds(now: Any, then: Any) -> bool:
    """Whether what was said then is said now, by the same names and at the same places; more may be."""
    if isinstance(then, dict):
        return isinstance(now, dict) and all(key in now and holds(now[key], then[key]) for key in then)
    if isinstance(then, list):
        # Each list of these frames has one element, or is a row: what is appended stands behind.
        return isinstance(now, list) and len(now) >= len(then) and all(map(holds, now, then))
    return type(now) is type(then) and bool(now == then)


NAMES: Final = [f"{direction}-{kind_of(frame)}" for direction, frame in LINES]


@pytest.mark.parametrize(("direction", "frame"), LINES, ids=NAMES)
def test_it_is_read_and_told_again_with_all_that_it_said(direction: str, frame: str) -> None:
    told_again = codec.encode(READ_BY[direction](frame.encode()))
    assert holds(msgspec.json.decode(told_again), msgspec.json.decode(frame))


@pytest.mark.parametrize("row", PLACES, ids=lambda row: row.__name__)
def test_what_has_no_names_has_its_places(row: type[msgspec.Struct]) -> None:
    then = PLACES[row].split()
    assert list(row.__struct_fields__[: len(then)]) == then


def test_what_is_no_frame_of_that_version_is_of_a_later_protocol() -> None:
    """Whoever makes a new kind says in `muster.messages.link.protocol` who understands it, and here."""
    then = {(direction, kind_of(frame)) for direction, frame in LINES}
    now = {(way, str(kind.__struct_config__.tag)) for way, kinds in SAID.items() for kind in get_args(kinds)}
    assert {kind for _, kind in now - then} == set(KINDS_SINCE)
    assert all(PROTOCOL < since <= LINK_PROTOCOL for since in KINDS_SINCE.values())
