"""This room commits what was handed out, and owns up to what cannot be committed any more."""

import asyncio
import random
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, Final

from muster.client.core.directives import CommitAnswered, Directive
from muster.client.core.session import MemberSession, Stage
from muster.client.errors import CommitFailed, CommitUnanswered, PartitionNotAssigned, PartitionsLost
from muster.client.metrics import Metrics
from muster.client.record import Offsets, TopicPartition
from muster.client.tenure import UNKNOWN, Tenure
from muster.kernel.error_codes import ErrorCode
from muster.messages.partitions import Partition, Position

FIRST_BACKOFF_S: Final = 0.02
LAST_BACKOFF_S: Final = 0.5

_ASK_AGAIN = frozenset({ErrorCode.UNKNOWN_MEMBER_ID})
"""Beside what is retriable: the connection is another member's by now, and the next one is on its way."""


@dataclass(slots=True)
class _Asked:
    """A CommitOffsets under way, and what it says of which tenure."""

    answer: "asyncio.Future[CommitAnswered | None]"
    tenures: dict[Partition, tuple[Tenure, int]]
    """With the number of its seeks at that moment."""
    positions: dict[Partition, Position]


@dataclass(frozen=True, slots=True)
class Question:
    """What the application asks to commit: `offsets`, or (None) what was handed out.

    Of the tenures that `unfinished` names, by their number, the record in hand is left out.
    """

    offsets: Offsets | None = None
    unfinished: Callable[[], frozenset[int]] = frozenset
    timeout_ms: int = 0
    """0: a session timeout."""


class Committing:
    """The commits of one consumer; `held` gives the tenures whose records the application may still hold.

    Under `guard` another thread may finish records.
    """

    def __init__(
        self,
        obey: Callable[[Iterable[Directive]], None],
        held: Callable[[], Iterable[Tenure]],
        metrics: Metrics,
    ) -> None:
        self.guard: AbstractContextManager[Any] = nullcontext()
        self._obey = obey
        self._held = held
        self._metrics = metrics
        self._asked: dict[int, _Asked] = {}
        self._lost: dict[Partition, Tenure] = {}
        self.over = False

    # What the conversation tells.

    def lose(self, tenures: Iterable[Tenure]) -> None:
        """These ended. What they handed out cannot be committed, unless `resume` takes them up again."""
        for tenure in tenures:
            if tenure.has_uncommitted:
                self._lost[tenure.of] = tenure

    def resume(self, partition: Partition, offset: int, generation: int, *, kept: bool) -> Tenure | None:
        """The tenure to go on with where the application is; None: fetch from `offset`, the committed one."""
        lost = self._lost.get(partition)
        if lost is None:
            return None
        if kept and (lost.sought or offset < lost.delivered_to):
            del self._lost[partition]
            lost.resume(generation)
            return lost
        if lost.delivered_to <= offset and (kept or lost.generation == generation):
            # Nobody else had it in between: what was handed out before the break was committed after all.
            del self._lost[partition]
        return None

    def answered(self, correlation_id: int, answer: CommitAnswered | None) -> None:
        """The coordinator answered, or the connection went and it is not known what became of the commit."""
        asked = self._asked.pop(correlation_id, None)
        if asked is None:
            return
        if answer is not None and answer.error_code is ErrorCode.NONE:
            # Also when nobody waits for it any more.
            for partition, (tenure, seeks) in asked.tenures.items():
                if partition not in answer.refused:
                    tenure.committed(asked.positions[partition].offset, seeks)
                    if self._lost.get(partition) is tenure and not tenure.has_uncommitted:
                        del self._lost[partition]
        if not asked.answer.done():
            asked.answer.set_result(answer)

    def end(self) -> None:
        """The consumer is over: who still waits is told."""
        self.over = True
        for correlation_id in list(self._asked):
            self.answered(correlation_id, None)

    # What the application asks.

    async def commit(
        self,
        session: Callable[[], MemberSession],
        registered: asyncio.Event,
        why_not: Callable[[], str],
        question: Question,
    ) -> None:
        """Commit what is asked for; returns after the coordinator's COMMIT.

        Asks again until the time is over: through a drain, a hand-over, a takeover. Raises CommitFailed, and
        PartitionNotAssigned or ValueError for offsets that cannot be committed here.
        """
        within_ms = question.timeout_ms or session().wishes.session_timeout_ms
        backoff_s = FIRST_BACKOFF_S
        tried: dict[TopicPartition, Tenure] = {}
        try:
            async with asyncio.timeout(within_ms / 1000):
                while not await self._commit_once(session(), question, tried):
                    self._metrics.commit_retries += 1
                    await registered.wait()
                    await asyncio.sleep(backoff_s * random.uniform(0.75, 1.25))
                    backoff_s = min(LAST_BACKOFF_S, backoff_s * 2)
        except TimeoutError:
            self._metrics.commits_failed += 1
            raise CommitUnanswered(
                f"no answer within {within_ms} ms ({why_not()}): what became of this commit is not known yet;"
                " call commit() again, which repeats nothing that was done"
            ) from None
        except CommitFailed:
            self._metrics.commits_failed += 1
            raise
        self._metrics.commits += 1

    async def _commit_once(
        self, session: MemberSession, question: Question, tried: dict[TopicPartition, Tenure]
    ) -> bool:
        """True if the coordinator answered, or there was nothing to commit; False: ask again.

        `tried` are the tenures that offsets by name were asked for before, in this commit.
        """
        if self.over:
            raise CommitFailed("the session is over")
        if self._lost and not session.told and session.stage is not Stage.OVER:
            # Whether they are still this member's is not known before its next StartFetcher.
            return False
        with self.guard:
            asked = self._gather(question, tried)
        if not asked.positions:
            self._own_up({})
            return True
        number, directives = session.commit(asked.positions)
        if not number:
            return False
        self._asked[number] = asked
        self._obey(directives)
        answer = await asked.answer
        if answer is None or answer.error_code.retriable or answer.error_code in _ASK_AGAIN:
            return False
        if answer.error_code is not ErrorCode.NONE:
            raise CommitFailed(answer.error_code.name, answer.refused)
        self._own_up(answer.refused)
        return True

    def _gather(self, question: Question, tried: dict[TopicPartition, Tenure]) -> _Asked:
        asked = _Asked(asyncio.get_running_loop().create_future(), {}, {})
        tenures = {tenure.of: tenure for tenure in self._held()}
        unfinished = question.unfinished()
        for partition, offset in self._wanted(tenures, question.offsets, tried).items():
            tenure = tenures[partition]
            if offset is None:
                offset = tenure.finished_to if tenure.number in unfinished else tenure.delivered_to
                if offset in (UNKNOWN, tenure.committed_to):
                    continue
            # A ping must not take back what this commits.
            if tenure.number not in unfinished:
                tenure.finished_to = max(offset, tenure.finished_to)
            asked.tenures[partition] = tenure, tenure.seeks
            asked.positions[partition] = Position(offset, tenure.generation)
        return asked

    def _wanted(
        self,
        tenures: Mapping[Partition, Tenure],
        offsets: Offsets | None,
        tried: dict[TopicPartition, Tenure],
    ) -> Mapping[Partition, int | None]:
        if offsets is None:
            return dict.fromkeys(tenures)
        if not isinstance(offsets, Mapping):
            raise ValueError(f'offsets: {offsets!r} names no partitions; write {{("topic", 0): 17}}')
        by_place = {tenure.place: tenure for tenure in tenures.values()}
        wanted: dict[Partition, int | None] = {}
        for (topic, number), offset in offsets.items():
            if isinstance(offset, bool) or not isinstance(offset, int):
                raise ValueError(f"{topic}-{number}: an offset is a whole number, not {offset!r}")
            place = TopicPartition(topic, number)
            tenure = by_place.get(place)
            if place in tried and tried[place] is not tenure:
                # Others may have gone ahead of it since. What came of that is owned up to.
                continue
            if tenure is None:
                raise PartitionNotAssigned(f"{topic}-{number} is not this consumer's: nothing was committed")
            if not 0 <= offset <= tenure.delivered_to:
                raise ValueError(
                    f"{tenure}: {offset} cannot be committed: records were handed out up to"
                    f" {tenure.delivered_to}; seek goes ahead"
                )
            wanted[tenure.of] = offset
        tried.update((tenures[one].place, tenures[one]) for one in wanted)
        return wanted

    def _own_up(self, refused: Mapping[Partition, ErrorCode]) -> None:
        """Raise PartitionsLost if something that was handed out is not committed and will not be; once."""
        lost = dict.fromkeys(self._lost, ErrorCode.NOT_PARTITION_OWNER)
        self._lost.clear()
        if failed := {**lost, **refused}:
            named = ", ".join(f"{one}: {why.name}" for one, why in failed.items())
            raise PartitionsLost(
                f"{named}: what was handed out since the last commit comes again, to whoever owns them",
                failed,
            )
