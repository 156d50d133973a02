"""A commit never returns as if all were well while something that was handed out is not committed."""

import pytest

from muster.client.conversation import Conversation
from muster.client.core.session import Wishes
from muster.client.errors import CommitFailed
from muster.client.fetching import FetchOptions
from muster.client.tenure import Tenure
from muster.kernel.error_codes import ErrorCode
from muster.kernel.instants import Instant, after
from muster.messages.member import RegisterConsumerResponse, StartFetcherRequest, TopicCount
from tests.unit.client_core.test_a_member_obeys_its_coordinator import NOW, orders, start

S = 10_000


class Ann:
    """A consumer without a coordinator: the test says what is heard, and when."""

    def __init__(self) -> None:
        wishes = Wishes("readers", "ann", "t" * 43, (TopicCount("orders"),), session_timeout_ms=S)
        self.conversation = Conversation(wishes, [], "", FetchOptions("tests"))

    def registers(self, now: Instant, known: bool = False) -> None:
        session = self.conversation.session
        self.conversation._obey(session.connected(now))
        number = session._register_id
        self.conversation._obey(
            session.hear(RegisterConsumerResponse(correlation_id=number, known=known), now)
        )

    def hears(self, message: StartFetcherRequest, now: Instant) -> Tenure:
        self.conversation._obey(self.conversation.session.hear(message, now))
        [tenure] = self.conversation.fetching.tenures()
        return tenure

    def is_late(self) -> Instant:
        """Its own deadline passes."""
        late = after(NOW, S)
        self.conversation._obey(self.conversation.session.tick(late))
        assert not list(self.conversation.fetching.tenures())
        return late


def ann_who_has_read(count: int) -> Ann:
    ann = Ann()
    ann.registers(NOW)
    ann.hears(start(1, 40), NOW).delivered_to += count
    return ann


async def test_what_a_lost_partition_handed_out_fails_the_next_commit_and_only_that() -> None:
    ann = ann_who_has_read(1)
    ann.is_late()
    with pytest.raises(CommitFailed) as refusal:
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
    tenure = ann.hears(start(1, 60, generation=3), late)
    tenure.committed_to = tenure.delivered_to
    with pytest.raises(CommitFailed):
        await ann.conversation.commit()


async def test_a_partition_that_comes_back_where_we_had_been_was_committed_by_our_pings() -> None:
    ann = ann_who_has_read(1)
    late = ann.is_late()
    ann.registers(late, known=True)
    tenure = ann.hears(start(2, 41), late)
    tenure.committed_to = tenure.delivered_to
    await ann.conversation.commit()


async def test_a_record_that_is_committed_while_it_is_in_hand_counts_as_finished() -> None:
    ann = ann_who_has_read(1)
    [tenure] = ann.conversation.fetching.tenures()
    assert tenure.finished_to == 40
    # Nobody answers; what the next ping says must not be older than what was asked for.
    ann.conversation.session._obeyed = (1, 1)
    asking = ann.conversation._commit_once()
    asking.send(None)
    assert tenure.finished_to == 41
    asking.close()
