"""This room fills the tables with classic groups: consumers of Kafka, a pool of workers, offsets alone."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta

from controller.models import Topic
from groups.core import classic, records
from groups.core.consumer_protocol import assignment, subscription
from groups.core.phases import Phase
from groups.models import ClassicMember, ConsumerGroup
from tests.integration.web import cast

STRATEGIES = ("cooperative-sticky", "range")
ANN, BEN, CLEO = (f"{name}-5b1f03c2-7d2e-4f0a-9a53-8a6c0e4d11{name[:1]}" for name in ("ann", "ben", "cleo"))


def add_member(
    group: ConsumerGroup,
    member_id: str,
    topics: Sequence[str] = (),
    given: Mapping[str, Sequence[int]] | None = None,
    *,
    said: bytes | None = None,
    instance: str | None = None,
    strategies: Sequence[str] = STRATEGIES,
) -> ClassicMember:
    """A member that said the same to each of its strategies."""
    stated = subscription(topics) if said is None else said
    return ClassicMember.objects.create(
        group=group,
        member_id=member_id,
        group_instance_id=instance,
        client_id=member_id.partition("-")[0],
        client_host="/10.0.2.17",
        session_timeout_ms=45_000,
        rebalance_timeout_ms=300_000,
        protocol_names=list(strategies),
        protocol_metadata=[stated] * len(strategies),
        assignment=assignment(given) if given is not None else b"",
        observed={topic: list(numbers) for topic, numbers in (given or {}).items()},
        node="node-1",
        joined_at=cast.ago(hours=2),
    )


def add_group(name: str, **more: object) -> ConsumerGroup:
    """A group of Kafka's consumers without members, else as told."""
    values = {"protocol": "classic", "protocol_type": "consumer", "phase": "Empty"}
    return cast.add_group(name, **{**values, **more})  # type: ignore[arg-type]


def parcels(topic: Topic) -> ConsumerGroup:
    """Group `parcels`: ann, who leads, ben, who is static, and cleo, who came last, share six partitions."""
    opened = cast.ago(minutes=3)
    group = add_group(
        "parcels",
        phase="Stable",
        generation=2,
        protocol_name="cooperative-sticky",
        leader=ANN,
        changed_at=opened,
    )
    shares = {ANN: (0, 1), BEN: (2, 3), CLEO: (4, 5)}
    for member_id, numbers in shares.items():
        add_member(
            group,
            member_id,
            [topic.name],
            {topic.name: numbers},
            instance="parcels-b" if member_id == BEN else None,
        )
    for number in range(6):
        cast.reach(topic, number, 900)
        cast.commit(group, topic, number, 900 - number)
    _tell(group, topic, cast.ago(hours=2), 1, (ANN, BEN), {ANN: (0, 1, 4), BEN: (2, 3, 5)})
    _tell(group, topic, opened, 2, (CLEO,), shares)
    return group


def _tell(
    group: ConsumerGroup,
    topic: Topic,
    at: datetime,
    generation: int,
    came: Sequence[str],
    shares: Mapping[str, Sequence[int]],
) -> None:
    """The turns of one rebalance as the owner of a classic group journals them."""
    lane = f"coordinator/{group.shard}"
    first, *others = (
        records.ClassicMemberAdded(
            classic.ClassicMember(
                member_id=member_id, session_timeout_ms=45_000, rebalance_timeout_ms=300_000, protocols=()
            )
        )
        for member_id in came
    )
    opening = [first, records.PhaseEntered(Phase.PREPARING_REBALANCE, f"{came[0]} joined")]
    if generation == 1:
        opening.insert(0, records.ProtocolEntered("classic"))
    cast.journal(lane, group.name, at, "somebody joined", opening)
    if others:
        cast.journal(lane, group.name, at, "somebody joined", others)
    all_joined(group, at + timedelta(seconds=3), generation)
    given = {member_id: assignment({topic.name: numbers}) for member_id, numbers in shares.items()}
    assigned = [records.ClassicAssigned(given), records.PhaseEntered(Phase.STABLE)]
    cast.journal(lane, group.name, at + timedelta(seconds=3.4), "the leader assigned", assigned)


def opens(group: ConsumerGroup, at: datetime) -> None:
    """The turn in which ann, who leads, joined again, and all have to."""
    turn = [records.PhaseEntered(Phase.PREPARING_REBALANCE, f"{ANN} leads, and joined again")]
    cast.journal(f"coordinator/{group.shard}", group.name, at, "the leader joined again", turn)


def all_joined(group: ConsumerGroup, at: datetime, generation: int) -> None:
    """The turn that ends the join phase: ann leads."""
    turn = [
        records.GenerationOpened(generation),
        records.ProtocolChosen("consumer", STRATEGIES[0], ANN),
        records.PhaseEntered(Phase.COMPLETING_REBALANCE),
    ]
    cast.journal(f"coordinator/{group.shard}", group.name, at, "all joined", turn)
