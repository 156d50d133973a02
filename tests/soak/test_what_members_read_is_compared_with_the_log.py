"""A record that nobody read, that was read out of turn, or that was another one, is found."""

import json
from typing import Any

from tests.soak.seen import Seen, unread

LOG = {0: [b"a", b"b", b"c"], 1: [b"d"]}


def read(*places: tuple[str, int, int, int], value: bytes = b"") -> Seen:
    """Each (member, tenure, partition, offset)."""
    seen = Seen()
    for member, tenure, number, offset in places:
        seen.saw("readers", member, tenure, number, offset, value or LOG[number][offset])
    return seen


def told(seen: Seen) -> Any:
    return json.loads(json.dumps(seen.told()))


def test_what_several_processes_read_counts_together() -> None:
    ann = read(("ann", 1, 0, 0), ("ann", 1, 0, 1))
    ben = read(("ben", 1, 0, 1), ("ben", 1, 0, 2), ("ben", 1, 1, 0))
    assert unread(LOG, [told(ann), told(ben)], "readers") == (4, 0, 0)
    assert unread(LOG, [told(ann)], "readers") == (2, 2, 0)
    assert unread(LOG, [told(ann)], "others") == (0, 4, 0)


def test_a_gap_or_a_step_back_is_a_disorder_unless_the_partition_came_anew() -> None:
    assert len(read(("ann", 1, 0, 0), ("ann", 1, 0, 2)).disorders) == 1
    assert len(read(("ann", 1, 0, 1), ("ann", 1, 0, 0)).disorders) == 1
    assert read(("ann", 1, 0, 1), ("ann", 2, 0, 0)).disorders == []


def test_another_record_at_the_same_place_is_found() -> None:
    wrong = read(("ann", 1, 1, 0), value=b"x")
    assert unread(LOG, [told(wrong)], "readers") == (0, 3, 1)
    wrong.saw("readers", "ben", 1, 1, 0, b"d")
    assert len(wrong.disorders) == 1
