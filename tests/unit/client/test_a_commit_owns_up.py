"""A commit never returns as if all were well while something that was handed out is not committed."""

import asyncio

import pytest

from muster.client.errors import PartitionNotAssigned, PartitionsLost
from muster.client.record import TopicPartition
from muster.kernel.error_codes import ErrorCode
from muster.messages.member import CommitOffsetsRequest, StartFetcherRequest
from tests.unit.client.ann import Ann, ann_who_has_read
from tests.unit.client_core.test_a_member_obeys_its_coordinator import orders, start


async def test_what_a_lost_partition_handed_out_fails_the_next_commit_and_only_that() -> None:
    ann = ann_who_has_read(1)
    late = ann.is_late()
    ann.registers(late)
    ann.hears(start(1), late)
    with pytest.raises(PartitionsLost, match="comes again") as refusal:
        await ann.conversation.commit()
    assert refusal.value.refused == {orders(0): ErrorCode.NOT_PARTITION_OWNER}
    await ann.conversation.commit()


async def test_a_partition_that_handed_out_nothing_is_lost_without_a_word() -> None:
    ann = ann_who_has_read(0)
    ann.is_late()
    await ann.conversation.commit()


async def test_a_partition_that_comes_back_after_another_had_it_has_not_committed_for_us() -> None:
    ann = ann_who_has_read(1)
    late = ann.is_late()
    ann.registers(late)
    tenure = ann.starts(start(1, 60, generation=3), late)
    tenure.committed_to = tenure.delivered_to
    with pytest.raises(PartitionsLost):
        await ann.conversation.commit()


async def test_a_partition_that_comes_back_where_we_had_been_was_committed_by_our_pings() -> None:
    ann = ann_who_has_read(1)
    late = ann.is_late()
    ann.registers(late, known=True)
    tenure = ann.starts(start(2, 41), late)
    tenure.committed_to = tenure.delivered_to
    await ann.conversation.commit()


async def test_a_record_that_is_committed_while_it_is_in_hand_counts_as_finished() -> None:
    ann = ann_who_has_read(1)
    [tenure] = ann.tenures()
    assert tenure.finished_to == 40
    # Nobody answers; what the next ping says must not be older than what was asked for.
    committing, _ = await ann.commits()
    assert tenure.finished_to == 41
    committing.cancel()


async def by_name(ann: Ann, after: StartFetcherRequest) -> ErrorCode:
    """How 41 of orders-0 is refused, if the answer is lost and this is told before it can be asked again."""
    place = TopicPartition("orders", 0)
    committing = asyncio.create_task(ann.conversation.commit(ann.conversation.question({place: 41})))
    await ann.says_a_commit()
    ann.loses_its_connection()
    late = ann.is_late()
    ann.registers(late, generation=after.generation)
    ann.hears(after, late)
    with pytest.raises(PartitionsLost) as refusal:
        await asyncio.wait_for(committing, 5)
    return refusal.value.refused[orders(0)]


async def test_an_offset_by_name_that_is_lost_before_it_is_asked_again_comes_again() -> None:
    ann = ann_who_has_read(1)
    assert await by_name(ann, start(1, generation=3)) is ErrorCode.NOT_PARTITION_OWNER
    with pytest.raises(PartitionNotAssigned, match="nothing was committed"):
        await ann.conversation.commit(ann.conversation.question({TopicPartition("orders", 0): 41}))


async def test_an_offset_by_name_is_not_asked_again_over_what_another_member_has_committed() -> None:
    ann = ann_who_has_read(1)
    assert await by_name(ann, start(1, 60, generation=3)) is ErrorCode.NOT_PARTITION_OWNER
    assert not [frame for frame in ann.line.said() if isinstance(frame, CommitOffsetsRequest)]
