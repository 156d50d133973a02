"""A consumer says how it stands when it is asked; by itself it speaks of trouble that lasts, and seldom."""

from collections.abc import Iterable
from typing import cast

from muster.client.core.session import MemberSession
from muster.client.core.wishes import Wishes
from muster.client.fetching import Fetching
from muster.client.standing import Reporter, Standing, State
from muster.client.telling import Telling
from muster.kernel.instants import Instant
from muster.messages.member import TopicCount

AWAY = Standing(State.SEARCHING, "ws://one: refused", trouble=True)
OTHER = Standing(State.SEARCHING, "ws://one: no answer", trouble=True)
WELL = Standing(State.CONSUMING)


def spoken(standings: Iterable[Standing]) -> list[tuple[int, str]]:
    """What is said, and in which second; each standing lasts one."""
    reporter = Reporter()
    said = [(second, reporter.look(one, Instant(1_000 * second))) for second, one in enumerate(standings)]
    return [(second, text) for second, text in said if text]


def test_a_failover_is_not_worth_a_word() -> None:
    assert spoken([WELL, AWAY, AWAY, AWAY, WELL, AWAY, WELL]) == []


def test_trouble_that_lasts_is_said_once_a_minute_and_its_end_once() -> None:
    said = spoken([AWAY] * 125 + [WELL, WELL])
    assert said == [
        (3, "searching: ws://one: refused"),
        (63, "searching: ws://one: refused"),
        (123, "searching: ws://one: refused"),
        (125, "well again: consuming"),
    ]


def test_other_words_are_said_sooner_but_not_in_a_circle() -> None:
    said = spoken([AWAY, OTHER] * 20)
    assert [second for second, _ in said] == [3, 14, 25, 36]


def test_to_be_without_a_partition_is_no_trouble() -> None:
    assert spoken([Standing(State.IDLE, "the others have all")] * 100) == []


def test_a_refusal_hides_no_node_that_went_away_since() -> None:
    session = MemberSession(Wishes("readers", "ann", "t" * 43, (TopicCount("orders"),), 10_000))
    problems: dict[str, str] = {}
    telling = Telling(lambda: session, cast(Fetching, None), problems)
    telling.refusal = "the group is not served there yet"
    assert telling.standing() == Standing(State.WAITING, telling.refusal, trouble=True)
    problems["ws://one"] = "refused"
    assert telling.standing().why == "the group is not served there yet; ws://one: refused"
