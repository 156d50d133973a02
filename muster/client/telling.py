"""This room tells how a consumer stands: it asks brokers why nothing is assigned, and warns of trouble."""

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import Final

from muster.client import clock
from muster.client.core.session import MemberSession, Stage
from muster.client.fetching import Fetching
from muster.client.standing import Reporter, Standing, State
from muster.kernel.instants import Instant, after

logger = logging.getLogger("muster.client")

REPORT_EVERY_S: Final = 1.0
FIRST_ASK_WHY_IDLE_MS: Final = 2_000
LAST_ASK_WHY_IDLE_MS: Final = 60_000
"""Thousands may be idle by design: each asks a broker ever more seldom."""

_OTHERS_HAVE_ALL: Final = "no partition is assigned to it; the others of its group have them all"


class Telling:
    """How one consumer stands towards its group; `problems` is what nodes last said, by their address.

    `refusal` is why the coordinator does not let it in at the moment; empty: it was not refused.
    """

    def __init__(
        self, session: Callable[[], MemberSession], fetching: Fetching, problems: Mapping[str, str]
    ) -> None:
        self.refusal = ""
        self._session = session
        self._fetching = fetching
        self._problems = problems
        self._why_idle = ""
        self._looked = False
        self._ask_again_at = Instant(0)
        self._pause_ms = FIRST_ASK_WHY_IDLE_MS

    def standing(self) -> Standing:
        """In one word and one sentence."""
        if self._session().stage not in (Stage.REGISTERED, Stage.LEAVING):
            problems = "; ".join(f"{node}: {why}" for node, why in list(self._problems.items()))
            if self.refusal:
                # Whoever refused it may be gone since: what the nodes say now stands beside it.
                why = f"{self.refusal}; {problems}" if problems else self.refusal
                return Standing(State.WAITING, why, trouble=True)
            why = problems or "the coordinator is silent, or no node has answered yet"
            return Standing(State.SEARCHING, why, trouble=True)
        tenures = list(self._fetching.tenures())
        if not tenures:
            return Standing(State.IDLE, self._why_idle or self._no_fault(), trouble=bool(self._why_idle))
        stalled = dict(self._fetching.stalled)
        named = [f"{one} ({stalled[one.key]})" for one in tenures if one.key in stalled]
        if named:
            why = f"{len(named)} of {len(tenures)} partitions cannot be fetched, such as {named[0]}"
            return Standing(State.STALLED, why, trouble=True)
        return Standing(State.CONSUMING)

    def _no_fault(self) -> str:
        """Why nothing is assigned though nothing is known to be wrong: no more than is known yet."""
        session = self._session()
        if not session.told:
            return "its group has not told it yet what is assigned to it"
        if not self._looked:
            return "no partition is assigned to it so far"
        if any(wish.is_pattern for wish in session.wishes.topic_count):
            return f"{_OTHERS_HAVE_ALL}, or no topic matches its patterns"
        return _OTHERS_HAVE_ALL

    def farewell(self, unheard: str) -> None:
        """It has left; `unheard` is why that, or its last commit, may not have come through."""
        if unheard:
            text = (
                "consumer %s of group %s has left, but %s: what it has not committed comes again,"
                " and its partitions may wait for the end of its session"
            )
            wishes = self._session().wishes
            logger.warning(text, wishes.consumer_id, wishes.group_id, unheard)

    async def report(self, standing: Callable[[], Standing]) -> None:
        """Warn of trouble, sparingly; until cancelled."""
        reporter = Reporter()
        wishes = self._session().wishes
        name = f"consumer {wishes.consumer_id} of group {wishes.group_id}"
        while True:
            await asyncio.sleep(REPORT_EVERY_S)
            await self._look_why_idle()
            now_stands = standing()
            if text := reporter.look(now_stands, clock.now()):
                logger.log(logging.WARNING if now_stands.trouble else logging.INFO, "%s is %s", name, text)

    async def _look_why_idle(self) -> None:
        session, now = self._session(), clock.now()
        if not session.told or session.stage is not Stage.REGISTERED or session.fetching:
            self._why_idle, self._looked = "", False
            self._ask_again_at, self._pause_ms = now, FIRST_ASK_WHY_IDLE_MS
            return
        if now < self._ask_again_at:
            return
        self._ask_again_at = after(now, self._pause_ms)
        self._pause_ms = min(LAST_ASK_WHY_IDLE_MS, 2 * self._pause_ms)
        named = {wish.topic for wish in session.wishes.topic_count if not wish.is_pattern}
        missing = await self._fetching.missing(named) if named else frozenset[str]()
        self._looked = True
        if missing is None:
            self._why_idle = "nothing is assigned to it, and no broker answers which topics there are"
        elif missing:
            self._why_idle = f"there is no topic {', '.join(sorted(missing))} yet"
        else:
            self._why_idle = ""
