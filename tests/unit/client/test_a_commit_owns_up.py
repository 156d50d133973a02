"""A commit never returns as if all were well while something that was handed out is not committed."""

import pytest

from muster.client.errors import PartitionsLost
from muster.kernel.error_codes import ErrorCode
from tests.unit.client.ann import ann_who_has_read
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
