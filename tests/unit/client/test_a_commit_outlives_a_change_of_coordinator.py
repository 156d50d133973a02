"""A drain, hand-over, takeover or outage between a commit and its answer is not the application's affair."""

import asyncio
from pathlib import Path

import pytest

from muster.client.errors import CommitFailed, CommitUnanswered
from muster.kernel.error_codes import ErrorCode
from muster.messages.member import CommitOffsetsResponse
from muster.messages.partitions import Position, each_position
from tests.unit.client.ann import Ann, ann_who_has_read
from tests.unit.client.stage import places, staged, take, until
from tests.unit.client_core.test_a_member_obeys_its_coordinator import NOW, orders, start

ONE_MORE = {orders(0): Position(41, 1)}


@pytest.mark.parametrize(
    "refusal",
    [
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.UNKNOWN_MEMBER_ID,
    ],
)
async def test_a_refusal_that_passes_is_asked_again(refusal: ErrorCode) -> None:
    ann = ann_who_has_read(1)
    committing, request = await ann.commits()
    ann.hears(CommitOffsetsResponse(correlation_id=request.correlation_id, error_code=refusal))
    again = await ann.says_a_commit()
    assert dict(each_position(again.offset_info)) == ONE_MORE
    ann.hears(CommitOffsetsResponse(correlation_id=again.correlation_id))
    await committing
    assert ann.tenures()[0].committed_to == 41


async def test_a_refusal_for_good_is_raised() -> None:
    ann = ann_who_has_read(1)
    committing, request = await ann.commits()
    code = int(ErrorCode.GROUP_AUTHORIZATION_FAILED)
    ann.hears(CommitOffsetsResponse(correlation_id=request.correlation_id, error_code=code))
    with pytest.raises(CommitFailed, match="GROUP_AUTHORIZATION_FAILED"):
        await committing


async def test_a_commit_whose_answer_is_lost_is_said_again_on_the_next_connection() -> None:
    ann = ann_who_has_read(1)
    committing, _ = await ann.commits()
    ann.loses_its_connection()
    ann.registers(known=True)
    again = await ann.says_a_commit()
    ann.hears(CommitOffsetsResponse(correlation_id=again.correlation_id))
    await committing


async def after_an_outage(ann: Ann, *, known: bool, generation: int) -> None:
    """Longer than the session: her own deadline passes before she is back."""
    ann.loses_its_connection()
    late = ann.is_late()
    ann.registers(late, known=known, generation=generation)
    ann.hears(start(3, 40, generation=generation), late)


@pytest.mark.parametrize(("known", "generation"), [(True, 1), (False, 2)])
async def test_after_an_outage_she_goes_on_where_she_was_if_nobody_else_can_have_had_it(
    known: bool, generation: int
) -> None:
    ann = ann_who_has_read(1)
    [before] = ann.tenures()
    committing, _ = await ann.commits()
    await after_an_outage(ann, known=known, generation=generation)
    [tenure] = ann.tenures()
    assert tenure is before and (tenure.fetched_to, tenure.ended) == (41, False)
    again = await ann.says_a_commit()
    assert dict(each_position(again.offset_info)) == {orders(0): Position(41, generation)}
    ann.hears(CommitOffsetsResponse(correlation_id=again.correlation_id))
    await committing


async def test_a_commit_during_an_outage_waits_for_what_is_owned_after_it() -> None:
    ann = ann_who_has_read(1)
    ann.loses_its_connection()
    late = ann.is_late()
    committing = asyncio.create_task(ann.conversation.commit())
    await asyncio.sleep(0)
    ann.registers(late, known=True)
    await asyncio.sleep(0)
    assert not committing.done()
    ann.hears(start(2, 40), late)
    again = await ann.says_a_commit()
    ann.hears(CommitOffsetsResponse(correlation_id=again.correlation_id), late)
    await committing


async def test_a_commit_that_nobody_answers_says_that_asking_again_settles_it() -> None:
    ann = ann_who_has_read(1, session_timeout_ms=50)
    with pytest.raises(CommitUnanswered, match=r"no answer within 50 ms .* call commit\(\) again"):
        await ann.conversation.commit()


async def test_an_answer_that_comes_after_the_wait_counts() -> None:
    ann = ann_who_has_read(1, session_timeout_ms=50)
    committing, request = await ann.commits()
    with pytest.raises(CommitUnanswered):
        await committing
    ann.conversation.session.deadline = None
    ann.hears(CommitOffsetsResponse(correlation_id=request.correlation_id), NOW)
    await ann.conversation.commit()


async def test_a_commit_that_waits_for_a_coordinator_ends_with_its_consumer(tmp_path: Path) -> None:
    async with staged(tmp_path) as stage:
        stage.coordinator.shares = [places(0)]
        await stage.fill(1)
        async with stage.consumer() as ann:
            assert await take(ann, 1) == [(0, 0)]
            await stage.coordinator.end()
            committing = asyncio.create_task(ann.commit(timeout_ms=600_000))
            await until(lambda: ann.metrics.commit_retries > 0)
            await ann.close()
            with pytest.raises(CommitFailed, match="the session is over"):
                await asyncio.wait_for(committing, 20)
