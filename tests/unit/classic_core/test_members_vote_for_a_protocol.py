"""Which protocol a generation speaks, and how a strategy is rolled through a group (conformance 47, 48)."""

from msgspec import structs

from tests.unit.classic_core.group import ClassicGroup

BOTH = {"range": b"r", "sticky": b"s"}
OTHER_WAY = {"sticky": b"s", "range": b"r"}


def test_of_what_all_know_most_votes_win() -> None:  # 47
    group = ClassicGroup()
    events = [group.joining(protocols=one) for one in (BOTH, OTHER_WAY, OTHER_WAY)]
    group.turn(*events)
    answer = group.join_answer(events[0])
    assert answer is not None and answer.protocol_name == "sticky" == group.classic.protocol_name
    assert {one.metadata for one in answer.members} == {b"s"}


def test_nobody_wins_whom_not_all_know() -> None:  # 47
    group = ClassicGroup()
    group.turn(group.joining(protocols=OTHER_WAY), group.joining(protocols={"range": b"r"}))
    assert group.classic.protocol_name == "range"


def test_a_protocol_that_is_named_twice_is_one() -> None:
    """Kafka counts it twice, finds none that all know, and never answers."""
    group = ClassicGroup()
    event = structs.replace(group.joining(), protocols=(("range", b"a"), ("range", b"b")))
    group.turn(event)
    answer = group.join_answer(event)
    assert answer is not None and answer.protocol_name == "range"
    assert [one.metadata for one in answer.members] == [b"a"]


def test_a_strategy_is_rolled_through_a_group() -> None:
    """Two rounds: first all know both, then nobody knows the old one."""
    group = ClassicGroup()
    ids = group.stable("a", "b", protocols={"range": b"r"})
    chosen = []
    for wishes in (OTHER_WAY, {"sticky": b"s"}):
        for member_id in ids:
            group.turn(
                *(
                    group.joining(one, protocols=wishes if one == member_id else None)
                    for one in sorted(ids, key=lambda one: one != member_id)
                )
            )
            chosen.append(group.classic.protocol_name)
    assert chosen == ["range", "sticky", "sticky", "sticky"]


def test_an_empty_group_keeps_its_type_and_has_no_protocol() -> None:  # 48
    group = ClassicGroup()
    (ann,) = group.stable("a")
    group.leave(ann)
    assert (group.classic.protocol_type, group.classic.protocol_name) == ("consumer", None)


def test_an_empty_group_may_take_another_type() -> None:
    group = ClassicGroup()
    (ann,) = group.stable("a")
    group.leave(ann)
    group.completed("w", kind="connect", protocols={"sessioned": b""})
    assert group.classic.protocol_type == "connect"
