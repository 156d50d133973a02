"""A node knows which brokers came to it of late, and the controller which of them it hears."""

import pytest

from controller.heard import BrokersHeard
from muster.kernel.instants import Instant
from muster.messages.link.from_broker import BrokerPing
from runtime.judging import LONGEST_GAP_MS
from runtime.making_way import CAME_MS, HEARD_MS, OPENED_MS, Heard
from tests.unit.controller_service.stage import HereAndNow, linked


def test_who_came_is_told_for_some_seconds() -> None:
    node = BrokersHeard()
    node.came(1, Instant(0))
    node.came(2, Instant(1))
    assert node.of((), Instant(CAME_MS - 1)).came == {1, 2}
    assert node.of((), Instant(CAME_MS)).came == {2}


def test_who_comes_without_a_link_is_heard_for_some_seconds() -> None:
    node = BrokersHeard()
    node.heard(1, Instant(0))
    assert node.of((), Instant(HEARD_MS - 1)) == Heard(linked=frozenset({1}))
    assert node.of((), Instant(HEARD_MS)) == Heard()


def heard(linked: frozenset[int], silent: frozenset[int] = frozenset()) -> Heard:
    """Of a cluster in which brokers 1 and 2 are registered."""
    return Heard(linked=linked, silent=silent, registered=frozenset({1, 2}))


async def test_whose_link_is_open_and_says_nothing_is_silent_until_it_speaks() -> None:
    here = HereAndNow()
    service, links, _ = await linked(here)
    both = frozenset({1, 2})
    assert service.heard() == heard(both)
    here.time = Instant(here.time + OPENED_MS)
    assert service.heard() == heard(both, both)
    service.link_heard(links[2], BrokerPing(number=1, metadata_version=5))
    assert service.heard() == heard(both, frozenset({1}))
    here.frozen = True
    service.link_heard(links[1], BrokerPing(number=1, metadata_version=5))
    assert service.heard() == heard(both)
    here.time = Instant(here.time + HEARD_MS)
    service.link_closed(links[1])
    assert service.heard() == heard(frozenset({2}), frozenset({2}))


@pytest.mark.parametrize("links", [[1], []], ids=["whose hello waits for its turn", "who ended at once"])
@pytest.mark.parametrize("pings", [(), (0,), (2_000,)])
def test_who_opens_a_link_is_heard_for_as_long_as_its_way_here_is_told(
    links: list[int], pings: tuple[int, ...]
) -> None:
    """It came to a peer before, and what a peer tells is as old as two of its renewals may lie apart."""
    peer, controller = BrokersHeard(), BrokersHeard()
    peer.came(1, Instant(0))
    controller.opened(1, Instant(0))
    for at_ms in pings:
        controller.heard(1, Instant(at_ms))
    for now in range(0, CAME_MS + LONGEST_GAP_MS, 100):
        is_told = 1 in peer.of((), Instant(max(0, now - LONGEST_GAP_MS))).came
        heard = controller.of(links, Instant(now))
        assert is_told <= (1 in heard.linked - heard.silent), now
