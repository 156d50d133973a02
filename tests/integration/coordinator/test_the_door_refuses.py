"""Who is let in, what is refused, and how bad input ends."""

import asyncio
from collections.abc import Callable

import pytest

from access.tokens import new_token
from muster.client.transport import PATH, NodeUnreachable, Transport, Unwelcome
from muster.kernel.error_codes import ErrorCode
from muster.messages.member import (
    ClusterMetadataRequest,
    ClusterMetadataResponse,
    LeaveRequest,
    RegisterConsumerResponse,
    TopicCount,
)
from tests.integration.coordinator.control_plane import ControlPlane, eventually_async
from tests.integration.coordinator.member import ScriptedMember

NewMember = Callable[..., ScriptedMember]


@pytest.mark.parametrize("token", ["", "mst_00000000_nonsense", "Bearer"])
async def test_a_stranger_is_not_let_in(plane: ControlPlane, token: str) -> None:
    with pytest.raises(Unwelcome):
        await Transport.open(plane.addresses["node-1"], token)


async def test_a_token_of_which_nobody_told_the_node_is_good_at_once(plane: ControlPlane) -> None:
    """A wake-up may be late, or lost: then the node would know of it only when it reads all tokens again."""
    plane.token()
    made = new_token()
    plane.execute(
        "INSERT INTO access_apitoken (principal_id, name, prefix, digest, role, created_at, topics, groups)"
        " SELECT principal_id, %s, %s, %s, role, now(), '{}', '{}' FROM access_apitoken"
        " WHERE name = 'consumers' AND revoked_at IS NULL",
        f"made {made.prefix}",
        made.prefix,
        made.digest,
    )
    (await Transport.open(plane.addresses["node-1"], made.text)).hang_up()


async def test_an_address_with_the_path_behind_it_is_not_taken_for_a_token_that_may_not_consume(
    plane: ControlPlane,
) -> None:
    """As `stack.json` tells `websocket` beside `nodes`: the consumer ended, for a role that was right."""
    with pytest.raises(NodeUnreachable, match="it answered 404: is it a node"):
        await Transport.open(plane.addresses["node-1"] + PATH, plane.token())


async def test_a_viewer_may_not_consume(plane: ControlPlane) -> None:
    with pytest.raises(Unwelcome):
        await Transport.open(plane.addresses["node-1"], plane.token("watcher", "viewer"))


@pytest.mark.parametrize("session_timeout_ms", [0, 1_999, 2_000_000_000])
async def test_a_session_timeout_out_of_bounds_is_refused(
    plane: ControlPlane, group: str, new_member: NewMember, session_timeout_ms: int
) -> None:
    ann = new_member("ann")
    await ann.connect()
    answer = await ann.register(session_timeout_ms=session_timeout_ms)
    assert answer.error_code == ErrorCode.INVALID_SESSION_TIMEOUT
    assert plane.phase(group) == ""
    # The refused connection is left for the consumer to close.
    assert (await ann.register()).error_code == ErrorCode.NONE


async def test_a_second_process_under_one_id_is_refused_while_the_first_lives(
    plane: ControlPlane, group: str, new_member: NewMember
) -> None:
    ann, impostor = new_member("ann"), new_member("ann")
    await ann.connect()
    await ann.register()
    await ann.owns(0, 1, 2, 3)
    await impostor.connect()
    assert (await impostor.register()).error_code == ErrorCode.DUPLICATE_CONSUMER_ID
    assert not ann.closed and len(ann.owned) == 4


async def test_a_pattern_that_is_none_is_refused(
    plane: ControlPlane, group: str, new_member: NewMember
) -> None:
    ann = new_member("ann")
    await ann.connect()
    answer = await ann.register(topic_count=(TopicCount("or(ders", is_pattern=True),))
    assert answer.error_code == ErrorCode.INVALID_SUBSCRIPTION and answer.error_text


@pytest.mark.parametrize(
    "frame",
    [
        "",
        "{",
        "[]",
        '{"type":"Nonsense"}',
        '{"type":"Leave"}',
        '{"type":"Leave","correlation_id":-1}',
        "\ud7ff" * 5,
    ],
)
async def test_a_malformed_frame_ends_the_connection_with_its_reason(
    plane: ControlPlane, group: str, new_member: NewMember, frame: str
) -> None:
    ann = new_member("ann")
    await ann.connect()
    await ann.say_text(frame)
    assert (await ann.hung_up_on()).startswith("MALFORMED_FRAME")


async def test_a_name_that_no_row_holds_ends_only_its_own_connection(
    plane: ControlPlane, group: str, new_member: NewMember
) -> None:
    ann, ben = new_member("ann"), new_member("ben")
    await ann.connect()
    await ann.register(client_id="c" * 249)
    await ann.owns(0, 1, 2, 3)
    for wish in ({"client_id": "c" * 250}, {"consumer_id": "b" * 250}, {"client_id": "c\x00"}):
        await ben.connect()
        await ben.say_register(**wish)
        assert (await ben.hung_up_on()).startswith("MALFORMED_FRAME")
    assert not ann.closed
    [(members,)] = plane.query("SELECT count(*) FROM group_member WHERE group_name = %s", group)
    assert members == 1


async def test_a_binary_frame_ends_the_connection(
    plane: ControlPlane, group: str, new_member: NewMember
) -> None:
    ann = new_member("ann")
    await ann.connect()
    await ann.say_text(b"{}")
    assert (await ann.hung_up_on()).startswith("MALFORMED_FRAME")


async def test_an_oversize_frame_ends_the_connection(
    plane: ControlPlane, group: str, new_member: NewMember
) -> None:
    ann = new_member("ann")
    await ann.connect()
    await ann.register()
    await ann.say_text('{"type":"Leave","padding":"' + "x" * 70_000 + '"}')
    assert (await ann.hung_up_on()).startswith("FRAME_TOO_LARGE")


async def test_whoever_does_not_register_first_is_shown_out(
    plane: ControlPlane, group: str, new_member: NewMember
) -> None:
    ann = new_member("ann")
    await ann.connect()
    await ann.say(LeaveRequest(correlation_id=1, consumer_id="ann"))
    assert "RegisterConsumer comes first" in await ann.hung_up_on()


async def test_one_connection_serves_one_consumer(
    plane: ControlPlane, group: str, new_member: NewMember
) -> None:
    ann = new_member("ann")
    await ann.connect()
    await ann.register()
    await ann.say_register(consumer_id="ben")
    assert "one connection serves one consumer" in await ann.hung_up_on()


async def test_a_stale_generation_and_a_foreign_partition_are_not_committed(
    plane: ControlPlane, group: str, new_member: NewMember
) -> None:
    ann, ben = new_member("ann"), new_member("ben")
    for member in (ann, ben):
        await member.connect()
        await member.register()
    await ann.owns_some(2)
    await ben.owns_some(2)
    mine, theirs = min(ann.owned), min(ben.owned)
    ann.since[theirs] = ann.since[mine]
    answer = await ann.commit({mine: 5, theirs: 5}, generation=0)
    refused = {one.partition: one.error_code for topic in answer.refused for one in topic.partitions}
    assert refused == {mine: ErrorCode.ILLEGAL_GENERATION, theirs: ErrorCode.NOT_PARTITION_OWNER}
    answer = await ann.commit({mine: -1})
    assert answer.refused[0].partitions[0].error_code == ErrorCode.INVALID_REQUEST
    assert plane.committed(group).keys().isdisjoint({theirs})


async def test_any_node_tells_where_a_group_is_coordinated(
    plane: ControlPlane, group: str, new_member: NewMember
) -> None:
    ann = new_member("ann")
    await ann.connect()
    await ann.say(ClusterMetadataRequest(correlation_id=7, group_id="arrivals"))
    answer = await ann.expect(ClusterMetadataResponse)
    assert (answer.correlation_id, answer.error_code) == (7, 0)
    assert answer.coordinator_address == plane.addresses["node-1"]
    assert [node.address for node in answer.nodes] == [plane.addresses["node-1"]]


async def test_a_revoked_token_does_not_live_on_in_a_socket(plane: ControlPlane, group: str) -> None:
    ann = ScriptedMember(plane.addresses["node-1"], plane.token(group), group, "ann")
    await ann.connect()
    await ann.register()
    await asyncio.to_thread(plane.manage, "revoke_token", group)
    await eventually_async(lambda: ann.closed, "ann is shown out")
    assert "AUTHENTICATION_FAILED" in ann.closed
    with pytest.raises(Unwelcome):
        await ann.connect()
    await ann.vanish()


async def test_refusals_leave_no_trace(plane: ControlPlane, group: str, new_member: NewMember) -> None:
    ann = new_member("ann")
    await ann.connect()
    for number in range(200):
        ann.group = f"made-up-{number}"
        await ann.connect()
        answer: RegisterConsumerResponse = await ann.register(session_timeout_ms=1)
        assert answer.error_code == ErrorCode.INVALID_SESSION_TIMEOUT
    assert plane.query("SELECT count(*) FROM consumer_group WHERE name LIKE 'made-up-%%'") == [(0,)]
