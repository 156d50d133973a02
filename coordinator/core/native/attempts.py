"""This room opens, closes and fails rebalance attempts (native-protocol section 2: adopt, close, fail)."""

from collections.abc import Iterable, Mapping

from msgspec.structs import replace

from coordinator.core.draft import Draft, third_of
from coordinator.core.events import ItemFinished
from coordinator.core.memory import Attempt
from coordinator.core.proposal import Proposal
from coordinator.core.rebalance import Matched
from groups.core import records
from groups.core.subscriptions import Wanted, wanted
from muster.kernel.instants import Instant, after
from muster.kernel.invariants import invariant
from muster.messages.partitions import Partition, by_topic, each_partition

Shares = dict[str, frozenset[Partition]]

MEMBERS_CHANGED = "members changed while the handler computed"
EAGER = "eager"

BACKOFF_MAX_MS = 10_000
"""The bound where no member is concerned whose session timeout could give one."""


def settle(draft: Draft) -> None:
    """The end of each turn: adopt a finished item if that may be, and ask for a handler if one is due.

    While an attempt is open none is asked: it would read who owns what before the close (`asked_in_prep`).
    """
    item = draft.finished
    if item is not None and draft.attempt is None and _all_connected(draft, item.proposal):
        draft.finished = None
        adopt(draft, item)
    if not draft.rows.members:
        draft.wanted = ""
    may_ask = draft.attempt is None and not draft.rows.handler_asked
    if draft.wanted and may_ask and draft.now >= draft.wanted_from:
        draft.record(records.HandlerAsked(draft.wanted))
        draft.wanted = ""


def adopt(draft: Draft, item: ItemFinished) -> None:
    """Make the proposal the target, as far as it still fits, and open an attempt if anything changes.

    In eager mode, 000 chapter 9 to the letter, every member stops everything and starts anew.
    """
    proposal, rows = item.proposal, draft.rows
    draft.record(records.ItemAdopted(item.item_id))
    if proposal.version >= draft.wanted_at:
        # Whoever came while the item waited for its worker is in it.
        draft.wanted = ""
    if proposal.version < draft.members_changed_at:
        draft.want(MEMBERS_CHANGED)
    subscribes = _Subscriptions(draft, proposal.version)
    lost, gained = _changes(draft, proposal, subscribes)
    standbys = _other_standbys(draft, proposal, lost, gained, subscribes)
    if not lost and not gained and not standbys:
        _clear_error(draft)
        return
    snapshot = frozenset(member_id for member_id in proposal.members if member_id in rows.members)
    if draft.rows.rebalance_mode == EAGER:
        gained = _target(draft, lost, gained)
        lost = {member_id: frozenset(rows.owned_by(member_id)) for member_id in sorted(snapshot)}
    attempt = Attempt(
        key=draft.key_of_turn,
        members=snapshot,
        losers=frozenset(lost),
        waiting=frozenset(lost),
        lost=lost,
        gained=gained,
        standbys=standbys,
    )
    draft.attempt, draft.waiting = attempt, set(lost)
    if not lost:
        close(draft)
        return
    invariant(not draft.stops, "one turn opens one attempt")
    draft.stops = lost
    for member_id in lost:
        session = draft.sessions[member_id]
        due = after(draft.now, 2 * third_of(rows.members[member_id]))
        draft.set_session(member_id, replace(session, stop_due_at=due))


def close(draft: Draft) -> None:
    """Offsets, generation and ownership in one transaction; then everybody concerned hears its rows."""
    attempt = draft.open_attempt
    invariant(not draft.waiting, "an attempt closes when all have answered")
    draft.flush()
    generation = draft.rows.generation + 1
    draft.record(records.GenerationOpened(generation))
    for member_id, partitions in attempt.lost.items():
        if partitions:
            draft.record(records.PartitionsReleased(member_id, by_topic(partitions)))
    for member_id, partitions in attempt.gained.items():
        draft.record(records.PartitionsAssigned(member_id, generation, by_topic(partitions)))
    if attempt.standbys:
        told = {member_id: by_topic(partitions) for member_id, partitions in attempt.standbys.items()}
        draft.record(records.StandbysChanged(told))
    for member_id in sorted(attempt.losers | attempt.gained.keys() | attempt.standbys.keys()):
        draft.tell_ownership(member_id)
    draft.attempt = None
    draft.failures = 0
    _clear_error(draft)


def fail(draft: Draft, why: str) -> None:
    """The attempt ends without effect: rows stay, whoever was told to stop hears its rows again."""
    attempt = draft.open_attempt
    draft.attempt, draft.waiting = None, set()
    draft.failures += 1
    longest = 0
    for member_id in sorted(attempt.losers):
        member = draft.rows.members.get(member_id)
        if member is not None:
            longest = max(longest, member.session_timeout_ms)
            session = draft.sessions[member_id]
            draft.set_session(member_id, replace(session, stop_due_at=None))
            draft.tell_ownership(member_id)
    if draft.settings.on_exhausted == "fail" and draft.failures > draft.settings.rebalance_max_retries:
        draft.record(records.ErrorShown(f"rebalance given up after {draft.failures} attempts: {why}"))
        draft.failures = 0
        draft.wanted = ""
        return
    draft.want(why, not_before=after_backoff(draft, longest))


def fail_if_concerned(draft: Draft, member_id: str, why: str) -> None:
    """Fail the open attempt, if there is one and it concerns this member."""
    if draft.attempt is not None and draft.attempt.concerns(member_id):
        fail(draft, why)


def after_backoff(draft: Draft, at_most_ms: int = 0) -> Instant:
    """When to try again: each failure doubles the distance, the longest session bounds it."""
    doubled = draft.settings.rebalance_backoff_ms << min(draft.failures - 1, 16)
    return after(draft.now, min(doubled, at_most_ms or BACKOFF_MAX_MS))


def _all_connected(draft: Draft, proposal: Proposal) -> bool:
    sessions = draft.sessions
    present = (sessions.get(member_id) for member_id in proposal.members)
    return all(session is None or session.connection is not None for session in present)


def _changes(draft: Draft, proposal: Proposal, subscribes: "_Subscriptions") -> tuple[Shares, Shares]:
    """Who loses what and who gains what; members that keep all they have appear in neither.

    What would go to a member that is gone or no longer subscribes stays where it is, or nobody owns it. Where
    a turn does not know it stays, too: members have changed, so that another handler is asked.
    """
    lost: dict[str, list[Partition]] = {}
    gained: dict[str, list[Partition]] = {}
    for giver, taker, topics in ((move.giver, move.taker, move.partitions) for move in proposal.moves):
        has = draft.rows.owned_by(giver)
        for topic in topics:
            finds_taker = bool(taker) and subscribes.still(taker, topic.topic)
            if finds_taker is None:
                continue
            if not finds_taker and taker and subscribes(giver, topic.topic) is not False:
                continue
            partitions = list(each_partition((topic,)))
            if finds_taker:
                gained.setdefault(taker, []).extend(partitions)
            if has and (loses := [one for one in partitions if one in has]):
                lost.setdefault(giver, []).extend(loses)
    return _sorted(lost), _sorted(gained)


def _sorted(shares: Mapping[str, Iterable[Partition]]) -> Shares:
    return {member_id: frozenset(shares[member_id]) for member_id in sorted(shares)}


def _target(draft: Draft, lost: Shares, gained: Shares) -> Shares:
    """All that everybody shall have."""
    members = sorted(draft.rows.owned.keys() | gained.keys())
    return {one: partitions for one in members if (partitions := _after(draft, one, lost, gained))}


def _after(draft: Draft, member_id: str, lost: Shares, gained: Shares) -> frozenset[Partition]:
    """What this member shall have."""
    nothing = frozenset[Partition]()
    kept = frozenset(draft.rows.owned_by(member_id)) - lost.get(member_id, nothing)
    return kept | gained.get(member_id, nothing)


class _Subscriptions:
    """Does this member subscribe to this topic now? Each list is found once; None: it is not known."""

    def __init__(self, draft: Draft, seen_at: int) -> None:
        """`seen_at`: the group's version as the handler read it."""
        self._members = draft.rows.members
        self._sessions = draft.sessions
        self._seen_at = seen_at
        self._matched = Matched(draft.surroundings.matches)
        self._asked: dict[str, Wanted] = {}

    def still(self, member_id: str, topic: str) -> bool | None:
        """Of one to which the handler gives the topic: it has looked, so that none is matched again who
        subscribes as it did.
        """
        session = self._sessions.get(member_id)
        is_as_seen = session is not None and session.subscribed_at <= self._seen_at
        return is_as_seen or self(member_id, topic)

    def __call__(self, member_id: str, topic: str) -> bool | None:
        asked = self._asked.get(member_id)
        if asked is None:
            member = self._members.get(member_id)
            asked = self._asked[member_id] = wanted(member.topic_count if member else ())
        if topic in asked.threads:
            return True
        answer: bool | None = False
        for entry in asked.patterns:
            found = self._matched(entry.topic, topic)
            if found:
                return True
            answer = answer if found is False else None
        return answer


def _other_standbys(
    draft: Draft, proposal: Proposal, lost: Shares, gained: Shares, subscribes: _Subscriptions
) -> Shares:
    """Who is to stand by for something else than now, as far as the proposal still fits.

    Nobody stands by for what it owns itself, or reads no longer.
    """
    standbys = draft.rows.standbys
    if not proposal.standbys and not standbys:
        return {}
    members = draft.rows.members
    shares: Shares = dict.fromkeys(standbys, frozenset())
    for share in proposal.standbys:
        member = members.get(share.member_id)
        if member is not None and member.stands_by:
            owns = _after(draft, share.member_id, lost, gained)
            read = (topic for topic in share.partitions if subscribes.still(share.member_id, topic.topic))
            shares[share.member_id] = frozenset(each_partition(read)) - owns
    return {
        member_id: mine
        for member_id, mine in sorted(shares.items())
        if mine != standbys.get(member_id, frozenset())
    }


def _clear_error(draft: Draft) -> None:
    if draft.rows.error:
        draft.record(records.ErrorShown(""))
