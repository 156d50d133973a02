"""Configs of a topic have Kafka's bounds; the refusal names the key, the value and the bounds."""

import pytest

from muster.kernel.config_kinds import BadConfig, Ratio, Replicas, SomeOf
from muster.kernel.topic_configs import KEYS, NAMED, Scope, check_together, checked, floor


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
        ("min.insync.replicas", "2 0"),
        ("min.insync.replicas", "\N{ARABIC-INDIC DIGIT TWO}"),
        ("min.insync.replicas", "\N{NO-BREAK SPACE}2"),
        ("cleanup.policy", "delete\N{LINE SEPARATOR}"),
        ("unclean.leader.election.enable", "true\N{EM SPACE}"),
        ("cleanup.policy", "burn"),
        ("min.cleanable.dirty.ratio", "1.5"),
        ("max.compaction.lag.ms", "0"),
        ("unclean.leader.election.enable", "yes"),
        ("message.timestamp.type", "createtime"),
    ],
)
def test_a_value_outside_is_refused_by_name_with_the_bounds(key: str, text: str) -> None:
    with pytest.raises(BadConfig) as refused:
        checked(key, text)
    said = str(refused.value)
    assert key in said and repr(text) in said and str(KEYS[key].kind) in said


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
        ("cleanup.policy", "compact"),
        ("cleanup.policy", "compact,delete"),
        ("delete.retention.ms", "0"),
        ("min.cleanable.dirty.ratio", "1.0"),
    ],
)
def test_a_value_on_the_bound_is_stored_as_it_was_given(key: str, text: str) -> None:
    assert checked(key, text) == text


@pytest.mark.parametrize(
    ("key", "text", "stored"),
    [
        ("min.insync.replicas", " 2", "2"),
        ("retention.ms", "1000\n", "1000"),
        ("retention.ms", "\x001000\x1b", "1000"),
        ("unclean.leader.election.enable", "TRUE", "true"),
        ("unclean.leader.election.enable", "False ", "false"),
    ],
)
def test_a_value_with_spaces_around_it_and_a_flag_in_any_case_are_taken_as_kafka_takes_them(
    key: str, text: str, stored: str
) -> None:
    assert checked(key, text) == stored


def test_what_nobody_acts_on_and_what_has_no_value_is_refused() -> None:
    with pytest.raises(BadConfig, match="is not a config of a topic here"):
        checked("flush.ms", "1")
    with pytest.raises(BadConfig):
        checked("retention.ms", None)


def test_a_key_that_is_another_scopes_own_is_refused_with_the_place_that_has_it() -> None:
    with pytest.raises(
        BadConfig, match=r"retention.ms is not a config of a broker here; it is called log.ret"
    ):
        checked("retention.ms", "1", Scope.BROKER)
    with pytest.raises(
        BadConfig, match=r"min.insync.replicas is not a config of a broker here, only of a clu"
    ):
        checked("min.insync.replicas", "1", Scope.BROKER)
    assert checked("log.retention.ms", "1", Scope.CLUSTER) == "1"


def test_what_is_declared_before_somebody_obeys_it_cannot_be_set() -> None:
    settable = {one for named in NAMED.values() for one in named.values()}
    assert all(one.is_obeyed for one in settable)
    assert all(one.key in KEYS for one in settable)


def test_every_default_is_a_value_of_its_own_kind() -> None:
    assert [one.key for one in KEYS.values() if one.kind.admitted(one.default) != one.default] == []


@pytest.mark.parametrize(
    ("kind", "text", "stored"),
    [
        (SomeOf(("delete", "compact")), " compact , delete,compact", "compact,delete"),
        (SomeOf(("delete", "compact")), "compact,burn", None),
        (SomeOf(("delete", "compact")), " , ", None),
        (SomeOf(("delete", "compact")), "compact,", None),
        (Replicas(), "", ""),
        (Replicas(), "*", "*"),
        (Replicas(), "0:1, 1:2,0:1", "0:1,1:2"),
        (Replicas(), "*,0:1", None),
        (Replicas(), "0:one", None),
        (Replicas(), "0:1," * 200_000, None),
        (Ratio(), "0.25", "0.25"),
        (Ratio(), "1", "1"),
        (Ratio(), "1.01", None),
        (Ratio(), "nan", None),
    ],
)
def test_lists_and_ratios_are_stored_in_one_spelling(
    kind: SomeOf | Replicas | Ratio, text: str, stored: str | None
) -> None:
    assert kind.admitted(text) == stored


def test_records_cannot_have_to_be_compacted_before_they_may_be() -> None:
    check_together({"min.compaction.lag.ms": "5", "max.compaction.lag.ms": "5"})
    with pytest.raises(BadConfig, match=r"min.compaction.lag.ms=6 is more than max.compaction.lag.ms=5"):
        check_together({"min.compaction.lag.ms": "6", "max.compaction.lag.ms": "5"})


@pytest.mark.parametrize(("least", "replicas", "expected"), [(1, 3, 1), (2, 3, 2), (3, 2, 2), (2, 1, 1)])
def test_the_floor_is_never_above_the_number_of_replicas(least: int, replicas: int, expected: int) -> None:
    assert floor(least, replicas) == expected
