"""This room says when the controller makes way for a node that brokers reach (leases.md section 10)."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from muster.kernel.instants import Instant, elapsed_ms
from runtime.database import Peer
from runtime.judging import LONGEST_GAP_MS

CAME_MS: Final = 5_000
"""So long it is told that a broker came to a node that is not the controller; it comes again before that."""

HEARD_MS: Final = 3_000
"""A broker that has said nothing here for so long, and came to another node, is that node's."""

OPENED_MS: Final = CAME_MS + LONGEST_GAP_MS
"""A broker that has opened a link is heard for so long, though its hello may wait for its turn, or it pings
seldom: that it came to another node is told from before.
"""

SETTLE_MS: Final = 10_000
"""So long a controller is looked for by everybody before it makes way, and again after looks had a gap."""

HOLD_MS: Final = 2_000
"""So long another node must hear more brokers, look after look."""

RENEWALS: Final = 3
"""So often that node must have renewed meanwhile: what a row of one that hangs says may be long past."""


class Heard(NamedTuple):
    """Brokers that proved who they are to one node, by number.

    `came`: of late, to be told that the controller is elsewhere. `linked`: they have a link here, or said
    something within HEARD_MS, or hello within OPENED_MS; `silent` are those of them that did not.
    `registered`: of the cluster, as the controller knows them; others hold no partition.
    """

    came: frozenset[int] = frozenset()
    linked: frozenset[int] = frozenset()
    silent: frozenset[int] = frozenset()
    registered: frozenset[int] = frozenset()


NOBODY: Final = Heard()
NO_GAIN: Final = (0, 0)


@dataclass(frozen=True, slots=True)
class _Case:
    """Since which look a peer hears more brokers, and how often it had renewed then."""

    since: Instant
    renewals: int


class MakingWay:
    """One node's part of it. Feed it each look, in the order in which they were sent."""

    def __init__(self) -> None:
        self.made_way_for = ""
        """A run; told with each renewal from the decision on, until this node is the controller again or
        the controller makes way for it. Outlives this node's own run: the network is no better for a new one.
        """
        self._is_making_way = False
        self._last_look_at: Instant | None = None
        self._holding_since: Instant | None = None
        self._cases: dict[str, _Case] = {}

    def look(
        self, run: str, peers: Sequence[Peer], heard: Heard, sent_at: Instant, controller: str, *, holds: bool
    ) -> Peer | None:
        """To whom the controller's lease is to be given now; `holds`: it is this node's, `run`'s, and serves;
        `controller`: whose run it is by its row.

        Decided at one look and done at a later one, when what both nodes tell of it is in the database.
        """
        last, self._last_look_at = self._last_look_at, sent_at
        if not holds:
            self._holding_since, self._is_making_way = None, False
            # Who did so before this node was the controller says so still, and proves nothing any more.
            if any(peer.made_way_for == run and peer.run == controller for peer in peers):
                self.made_way_for = ""
            return None
        if self._holding_since is None or last is None or elapsed_ms(last, sent_at) > LONGEST_GAP_MS:
            self._holding_since = sent_at
            self._cases.clear()
        self._consider(peers, heard, sent_at)
        if elapsed_ms(self._holding_since, sent_at) < SETTLE_MS:
            self.made_way_for, self._is_making_way = "", False
            return None
        chosen = self._chosen(peers, heard, sent_at)
        was_told, self._is_making_way = self._is_making_way, chosen is not None
        told, self.made_way_for = self.made_way_for, chosen.run if chosen is not None else ""
        is_known = was_told and chosen is not None and told == chosen.run and not chosen.made_way_for
        return chosen if is_known else None

    def _consider(self, peers: Sequence[Peer], heard: Heard, sent_at: Instant) -> None:
        """Note since when each peer hears more."""
        more = [peer for peer in peers if gain(peer, peers, heard) > NO_GAIN]
        self._cases = {peer.run: self._cases.get(peer.run) or _Case(sent_at, peer.renewals) for peer in more}

    def _chosen(self, peers: Sequence[Peer], heard: Heard, sent_at: Instant) -> Peer | None:
        ripe = []
        for peer in peers:
            case = self._cases.get(peer.run)
            if (
                case is not None
                and elapsed_ms(case.since, sent_at) >= HOLD_MS
                and peer.renewals >= case.renewals + RENEWALS
            ):
                ripe.append(peer)
        return max(ripe, key=lambda peer: (gain(peer, peers, heard), peer.node, peer.run), default=None)


def gain(peer: Peer, peers: Sequence[Peer], heard: Heard) -> tuple[int, int]:
    """How many registered brokers more come to this peer than are heard here, and then how many of all; of
    one that cannot take it, none.

    Each hand-over raises the number of brokers that the controller hears, for whoever reaches both nodes
    has a link to it and comes to no other: it ends, and never goes back as long as nothing changes.
    """
    if not peer.there or peer.draining:
        return NO_GAIN
    elsewhere = frozenset().union(*(one.came for one in peers))
    here = heard.linked - (heard.silent & elsewhere)
    there = peer.came - here
    registered = heard.registered
    return len(there & registered) - len(here & registered), len(there) - len(here)
