"""What nobody confirms is believed less and less: first nobody new comes in, much later everybody goes."""

from collections.abc import AsyncIterator

import pytest

from kafkaserver.cluster_answers import answer_api_versions
from kafkaserver.guard import Belief, Guard
from kafkaserver.replies import Reply
from kafkaserver.server import KafkaServer
from muster.client.broker_connection import BrokerConnection, BrokerNotTrusted, BrokerUnavailable, Question
from muster.client.securing import Security
from muster.kafkawire.api_table import ApiKey, RequestHeader, build, request_class
from muster.kernel.environment import SettingError
from muster.kernel.instants import Instant
from tests.unit.kafkaserver.test_callers_may_what_their_tokens_say import TOKEN, row

BELIEF = Belief(new_ms=1_000, standing_ms=5_000)
ANN = Security("SASL_PLAINTEXT", TOKEN)
VERSIONS = Question(
    ApiKey.API_VERSIONS,
    3,
    build(request_class(ApiKey.API_VERSIONS, 3), client_software_name="sdk", client_software_version="1"),
)


def _tell_versions(header: RequestHeader, _frame: memoryview, reply: Reply) -> None:
    reply.send(answer_api_versions(header))


class Door:
    """A door whose guard's clock is the test's."""

    def __init__(self, belief: Belief = BELIEF) -> None:
        self.guard = Guard(sasl=True, belief=belief)
        self.guard.know((row(),))
        self.guard.confirmed(Instant(0))
        self.server = KafkaServer("test", _tell_versions, gate=self.guard.gate)
        self.address = f"127.0.0.1:{self.server.listen('127.0.0.1', 0)}"

    def at(self, ms: int) -> None:
        self.guard.watch(Instant(ms), self.server)

    async def come_in(self) -> BrokerConnection:
        connection = await BrokerConnection.open(self.address, "ann", ANN)
        await connection.ask(VERSIONS, timeout_s=5)
        return connection


@pytest.fixture
async def door() -> AsyncIterator[Door]:
    made = Door()
    yield made
    await made.server.drain(grace_ms=0)


async def test_after_the_first_bound_nobody_new_comes_in_and_who_is_in_goes_on(door: Door) -> None:
    standing = await door.come_in()
    door.at(BELIEF.new_ms + 1)
    with pytest.raises(BrokerUnavailable) as refused:
        await door.come_in()
    # Not an authentication that failed, which is no reason to come again.
    assert not isinstance(refused.value, BrokerNotTrusted)
    await standing.ask(VERSIONS, timeout_s=5)
    standing.close()


async def test_after_the_second_bound_everybody_is_hung_up_on(door: Door) -> None:
    standing = await door.come_in()
    door.at(BELIEF.standing_ms + 1)
    with pytest.raises(BrokerUnavailable):
        await standing.ask(VERSIONS, timeout_s=5)
    assert door.guard.age_ms == BELIEF.standing_ms + 1


async def test_once_it_is_confirmed_again_they_come_in_and_stay(door: Door) -> None:
    door.at(BELIEF.standing_ms + 1)
    door.guard.confirmed(Instant(BELIEF.standing_ms))
    door.at(BELIEF.standing_ms + 2)
    standing = await door.come_in()
    door.at(BELIEF.standing_ms + 3)
    await standing.ask(VERSIONS, timeout_s=5)
    standing.close()


async def test_without_a_second_bound_they_stay() -> None:
    door = Door(Belief(new_ms=1_000, standing_ms=0))
    standing = await door.come_in()
    door.at(1_000_000_000)
    await standing.ask(VERSIONS, timeout_s=5)
    standing.close()
    await door.server.drain(grace_ms=0)


def test_who_stands_is_not_asked_to_go_before_who_comes() -> None:
    with pytest.raises(SettingError, match="MUSTER_KAFKA_CALLERS_MAX_AGE_STANDING_MS"):
        Guard.of(True, "", "", Belief(new_ms=1_000, standing_ms=999))
