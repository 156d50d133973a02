"""A layered mapping holds what a dict would hold, and what was forked stays as it was."""

from collections.abc import Mapping

import hypothesis.strategies as st
from hypothesis import given

from groups.core.layered import Layered

KEYS = st.integers(0, 12)
CHANGES = st.lists(st.lists(st.tuples(KEYS, st.none() | st.integers(0, 9)), max_size=6), max_size=12)


@given(st.dictionaries(KEYS, st.integers(0, 9)), CHANGES)
def test_forks_follow_a_dict_and_leave_the_former_alone(
    first: dict[int, int], turns: list[list[tuple[int, int | None]]]
) -> None:
    like, layered = dict(first), Layered.fork(first)
    handed_out: list[tuple[Mapping[int, int], dict[int, int]]] = []
    for turn in turns:
        handed_out.append((layered, dict(like)))
        layered = Layered.fork(layered)
        for key, value in turn:
            if value is None:
                assert layered.pop(key, None) == like.pop(key, None)
            else:
                layered[key] = like[key] = value
        many = {key: value for key, value in turn[:3] if value is not None}
        layered.take_over(many)
        like.update(many)
        assert layered == like and len(layered) == len(like)
        assert {key: (key in layered, layered.get(key)) for key in range(13)} == {
            key: (key in like, like.get(key)) for key in range(13)
        }
    assert all(dict(former) == expected for former, expected in handed_out)


def test_a_change_does_not_copy_what_lies_below() -> None:
    large = Layered({number: 0 for number in range(10_000)})
    for _ in range(50):
        large, before = Layered.fork(large), large
        large[1] = large[1] + 1
        assert large._base is before._base
