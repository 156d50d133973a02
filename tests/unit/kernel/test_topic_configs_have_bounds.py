"""Configs of a topic have Kafka's bounds; the refusal names the key, the value and the bounds."""

import pytest

from muster.kernel.topic_configs import KINDS, BadConfig, checked, flag, floor, number


@pytest.mark.parametrize(
    ("key", "text"),
    [
        ("segment.bytes", "10"),
        ("segment.bytes", "1048575"),
        ("segment.bytes", "2147483648"),
        ("retention.ms", "-2"),
        ("retention.bytes", "9223372036854775808"),
        ("max.message.bytes", "-1"),
        ("min.insync.replicas", "0"),
        ("min.insync.replicas", "two"),
        ("min.insync.replicas", " 2"),
        ("min.insync.replicas", "\N{ARABIC-INDIC DIGIT TWO}"),
        ("cleanup.policy", "compact"),
        ("unclean.leader.election.enable", "TRUE"),
    ],
)
def test_a_value_outside_is_refused_by_name_with_the_bounds(key: str, text: str) -> None:
    with pytest.raises(BadConfig) as refused:
        checked(key, text)
    said = str(refused.value)
    assert key in said and repr(text) in said and str(KINDS[key]) in said


def test_segments_below_a_mebibyte_are_refused_because_every_batch_would_roll() -> None:
    with pytest.raises(BadConfig, match="a whole number from 1048576 to 2147483647"):
        checked("segment.bytes", "10")


@pytest.mark.parametrize(
    ("key", "text"),
    [
        ("segment.bytes", "1048576"),
        ("retention.ms", "-1"),
        ("retention.bytes", str(2**63 - 1)),
        ("max.message.bytes", "0"),
        ("min.insync.replicas", "1"),
        ("cleanup.policy", "delete"),
    ],
)
def test_a_value_on_the_bound_is_stored_as_it_was_given(key: str, text: str) -> None:
    assert checked(key, text) == text


def test_what_nobody_acts_on_and_what_has_no_value_is_refused() -> None:
    with pytest.raises(BadConfig, match="is not a config of a topic here"):
        checked("flush.ms", "1")
    with pytest.raises(BadConfig):
        checked("retention.ms", None)


def test_what_an_older_release_stored_is_read_where_it_can_be() -> None:
    assert number({"segment.bytes": "10"}, "segment.bytes", 7) == 10
    assert number({"segment.bytes": "ten"}, "segment.bytes", 7) == 7
    assert number({}, "segment.bytes", 7) == 7
    assert flag({}, "unclean.leader.election.enable", default=True)
    assert not flag({"unclean.leader.election.enable": "false"}, "unclean.leader.election.enable", True)


@pytest.mark.parametrize(("least", "replicas", "expected"), [(1, 3, 1), (2, 3, 2), (3, 2, 2), (2, 1, 1)])
def test_the_floor_is_never_above_the_number_of_replicas(least: int, replicas: int, expected: int) -> None:
    assert floor(least, replicas) == expected
