"""From RegisterConsumer to Stable, and what members hear when others come and go."""

from collections.abc import Callable

from muster.kernel.error_codes import ErrorCode
from muster.messages.member import StartFetcherRequest, StopFetcherRequest
from tests.integration.coordinator.control_plane import ControlPlane, eventually_async
from tests.integration.coordinator.member import ScriptedMember

NewMember = Callable[..., ScriptedMember]


def numbers(stop: StopFetcherRequest) -> list[int]:
    """What a StopFetcher names, of one topic."""
    return sorted(number for topic in stop.partitions for number in topic.partitions)


async def test_the_first_member_gets_everything_and_the_group_is_stable(
    plane: ControlPlane, group: str, new_member: NewMember
) -> None:
    ann = new_member("ann")
    await ann.connect()
    answer = await ann.register()
    assert answer.error_code == ErrorCode.NONE and not answer.known
    await ann.owns(0, 1, 2, 3)
    await eventually_async(lambda: plane.phase(group) == "Stable", "the group is Stable")
    assert plane.owners(group) == {0: "ann", 1: "ann", 2: "ann", 3: "ann"}


async def test_a_newcomer_gets_its_share_and_only_losers_are_stopped(
    plane: ControlPlane, group: str, new_member: NewMember
) -> None:
    ann, ben, cleo = new_member("ann"), new_member("ben"), new_member("cleo")
    for member in (ann, ben):
        await member.connect()
        await member.register()
    await ann.owns_some(2)
    await ben.owns_some(2)
    kept = dict(ann.owned), dict(ben.owned)
    ann.heard.clear()
    ben.heard.clear()
    await cleo.connect()
    await cleo.register()
    await cleo.owns_some(1)
    stopped = [one for one in (ann, ben) if any(isinstance(it, StopFetcherRequest) for it in one.heard)]
    assert len(stopped) == 1
    for member, before in zip((ann, ben), kept, strict=True):
        assert member.owned.keys() <= before.keys()
        if member not in stopped:
            assert member.owned.keys() == before.keys()
    shares = [ann.owned.keys(), ben.owned.keys(), cleo.owned.keys()]
    assert sorted(number for share in shares for number in share) == [0, 1, 2, 3]


async def test_whoever_leaves_hands_over_with_its_positions(
    plane: ControlPlane, group: str, new_member: NewMember
) -> None:
    ann, ben = new_member("ann"), new_member("ben")
    for member in (ann, ben):
        await member.connect()
        await member.register()
    await ann.owns_some(2)
    await ben.owns_some(2)
    theirs = sorted(ben.owned)
    answer = await ben.commit({number: 40 + number for number in theirs})
    assert answer.error_code == ErrorCode.NONE and not answer.refused
    assert (await ben.leave()).error_code == ErrorCode.NONE
    await ann.owns(0, 1, 2, 3)
    assert {number: ann.owned[number] for number in theirs} == {number: 40 + number for number in theirs}
    assert plane.committed(group) == {number: 40 + number for number in theirs}


async def test_positions_travel_with_a_stop_to_the_next_owner(
    plane: ControlPlane, group: str, new_member: NewMember
) -> None:
    ann, ben = new_member("ann"), new_member("ben")
    await ann.connect()
    await ann.register()
    await ann.owns(0, 1, 2, 3)
    for number in ann.owned:
        ann.owned[number] = 100 + number
    await ben.connect()
    await ben.register()
    await ben.owns_some(2)
    assert ben.owned == {number: 100 + number for number in ben.owned}
    committed = plane.committed(group)
    assert {number: committed[number] for number in ben.owned} == ben.owned


async def test_in_eager_mode_everybody_stops_and_starts(
    plane: ControlPlane, group: str, new_member: NewMember
) -> None:
    plane.execute(
        "INSERT INTO consumer_group (name, shard, protocol, phase, generation, version, rebalance_mode,"
        " assignor, error, ephemeral) VALUES (%s, %s, 'native', 'Empty', 0, 1, 'eager', 'sticky',"
        " '', false)",
        group,
        plane.shard(group),
    )
    ann, ben = new_member("ann"), new_member("ben")
    await ann.connect()
    await ann.register()
    await ann.owns(0, 1, 2, 3)
    await ben.connect()
    await ben.register()
    await ben.owns_some(2)
    await ann.expect(StopFetcherRequest, lambda stop: numbers(stop) == [0, 1, 2, 3])
    await ann.owns_some(2)


async def test_a_topic_that_comes_later_is_shared_out(
    plane: ControlPlane, group: str, new_member: NewMember
) -> None:
    ann = new_member("ann")
    ann.topic = f"returns-{group}"
    await ann.connect()
    await ann.register()
    await ann.expect(StartFetcherRequest)
    assert ann.owned == {}
    plane.add_topic(ann.topic, 3)
    await ann.owns(0, 1, 2)


async def test_a_pattern_finds_its_topics(plane: ControlPlane, group: str, new_member: NewMember) -> None:
    from muster.messages.member import TopicCount

    ann = new_member("ann")
    ann.topic = "clicks"
    await ann.connect()
    await ann.register(topic_count=(TopicCount("cl.*s", is_pattern=True),))
    await ann.owns(0, 1)
