"""This room walks the world by chance, seed by seed, and ends each walk with two fair runs."""

from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass
from random import Random

from controller.core.election import never_led
from muster.kernel.invariants import InvariantViolation
from tests.simulation.replication.broker_process import NEVER_LAGS, incarnation, laggards
from tests.simulation.replication.losses import is_unclean
from tests.simulation.replication.readers import Readers
from tests.simulation.replication.wishes import Broken
from tests.simulation.replication.world import Action, World

STEPS = 160
TOPICS_IN_EACH = 3
UNREGISTERED_IN_EACH = 8
SHRUNK_IN_EACH = 10
PLANNED_IN_EACH = 9
UNCLEAN_IN_EACH = 10
CONFIGURED_IN_EACH = 11
"""One world of so many."""
MOVING = ("plan", "reassign_all", "reassign", "cancel", "grow", "create", "delete", "shrink", "unregister")
ROUNDS_AT_MOST = 80
FAIR_ORDER = (
    "late_arrives",
    "expire",
    "hello",
    "heed",
    "ping",
    "tell_losses",
    "control",
    "work",
    "finish",
    "go_on",
    "look_again",
    "receive",
    "read_below",
    "cut_below",
    "fetch",
    "propose",
    "ask_leader",
    "arrive_late",
    "answer",
    "send",
    "arrive",
)


@dataclass(frozen=True)
class Outcome:
    """What a walk broke ("" if nothing), and the steps that led there."""

    seed: int
    violation: str
    trail: tuple[Action, ...]


def topic_budget(rng: Random) -> dict[str, int]:
    """Of worlds in which topics come, go and grow as well, with moves under way."""
    return {
        "create": rng.randint(1, 3),
        "delete": rng.randint(1, 3),
        "grow": rng.randint(0, 2),
        "reassign": rng.choice((1, 2, 3)),
    }


def removal_budget(rng: Random) -> dict[str, int]:
    """Of worlds in which partitions are removed, and others come under their numbers."""
    return {"shrink": rng.randint(2, 6), "grow": rng.randint(4, 8), "reassign": rng.choice((0, 1, 2))}


def plan_budget(rng: Random) -> dict[str, int]:
    """Of worlds in which plans are proposed, run, given other rates, paused and cancelled."""
    return {
        "plan": rng.randint(1, 3),
        "steer": rng.randint(6, 16),
        "reassign_all": rng.choice((0, 1, 2)),
        "reassign": rng.choice((0, 1)),
        "takeover": rng.randint(0, 2),
    }


def drain_budget(rng: Random) -> dict[str, int]:
    """Of those of these in which one broker is drained, and nothing else is moved."""
    return {**dict.fromkeys(MOVING, 0), "drain": 1, "steer": rng.randint(8, 16), "kill": rng.randint(0, 1)}


def unclean_budget(rng: Random) -> dict[str, int]:
    """Of worlds in which elections lose records, and leaders delete some meanwhile."""
    return {
        "kill": rng.randint(2, 5),
        "expire": rng.randint(2, 5),
        "trim": rng.choice((0, 1, 3)),
    }


def unclean_power_budget(seed: int) -> dict[str, int]:
    """Of these: machines that lose their tails, perhaps several at a time; of its own chance."""
    return {"power": Random(seed + 2).choice((0, 1, 2, 3))}


def unclean_config_budget(seed: int) -> dict[str, int]:
    """Of those of these in which elections may lose records only for some time."""
    is_one = seed // UNCLEAN_IN_EACH % 3 == 1
    return {"configure": Random(seed).randint(2, 6)} if is_one else {}


def config_budget(seed: int) -> dict[str, int]:
    """Of worlds in which topics get another min.insync.replicas while they are written; of its own chance."""
    is_one = seed % CONFIGURED_IN_EACH in (8, 10)
    return {"configure": Random(seed).randint(2, 6)} if is_one else {}


def random_world(rng: Random, seed: int) -> World:
    """Three or four brokers, one or two partitions, and a budget for each kind of fault."""
    brokers = rng.choice((3, 3, 3, 4))
    power = rng.random() < 0.4
    ids = list(range(1, brokers + 1))
    factor = rng.choice((2, 3, 3))
    assignments = [tuple(rng.sample(ids, factor)) for _ in range(rng.choice((1, 1, 2)))]
    budget = {
        "kill": rng.randint(0, 3),
        "expire": rng.randint(0, 3),
        "takeover": rng.randint(0, 2),
        "late": rng.randint(0, 2),
        "slow": rng.randint(0, 3),
        "move": rng.randint(0, 2),
        "zombie": rng.randint(0, 1),
        "reassign": rng.choice((0, 0, 1, 2, 3)),
        "cancel": rng.choice((0, 0, 1)),
        "elect": rng.choice((0, 0, 0, 2)),
        "leave": rng.choice((0, 0, 0, 2)),
        "power": rng.randint(1, 3) if power else 0,
        "break": rng.randint(0, 3),
    }
    if seed % TOPICS_IN_EACH == 1:
        budget.update(topic_budget(rng))
    if seed % SHRUNK_IN_EACH == 8:
        budget |= removal_budget(rng)
    if seed % PLANNED_IN_EACH == 5:
        assignments = [tuple(rng.sample(ids, factor)) for _ in range(3)]
        budget |= plan_budget(rng)
        if seed // PLANNED_IN_EACH % 4 == 3:
            brokers = 4
            budget |= drain_budget(Random(seed))
    if seed % UNREGISTERED_IN_EACH == 2:
        # One that holds nothing is there to be unregistered, and dies.
        brokers = 4
        budget |= {"unregister": rng.randint(2, 6), "kill": rng.randint(2, 4)}
    is_unclean = seed % UNCLEAN_IN_EACH == 4
    if is_unclean:
        budget |= unclean_budget(rng) | unclean_power_budget(seed)
        budget |= unclean_config_budget(seed)
    if not power:
        # A crash may take what one machine alone was asked to keep.
        budget |= config_budget(seed)
    return World(
        assignments,
        brokers=brokers,
        min_insync=2 if power else rng.choice((1, 1, 2)),
        budget=budget,
        in_the_turn=rng.choice((0, 200)),
        is_lossy=is_unclean,
    )


def run_seed(seed: int, make: Callable[[Random, int], World] = random_world) -> Outcome:
    """One walk of the world that `make` makes, ended by two fair runs: all machines revived, and only those
    that live.
    """
    rng, readers_rng = Random(seed), Random(seed)
    trail: list[Action] = []
    try:
        world = make(rng, seed)
        readers = Readers(world.brokers)
        likelihood = rng.choice((0.05, 0.1, 0.2))
        for _ in range(STEPS):
            action = next_action(world, rng, likelihood)
            if action is None:
                break
            trail.append(action)
            world.do(action, rng)
            readers.step(world, readers_rng)
    except (Broken, InvariantViolation) as broken:
        return Outcome(seed, str(broken), tuple(trail))
    except (AssertionError, LookupError) as error:
        return Outcome(seed, f"a core fell over: {error!r}", tuple(trail))
    for revive in (True, False):
        text = settle(deepcopy(world), revive, deepcopy(readers))
        if text:
            return Outcome(seed, f"after a fair run ({revive=}): {text}", tuple(trail))
    return Outcome(seed, "", tuple(trail))


def next_action(world: World, rng: Random, likelihood: float) -> Action | None:
    """By kind first, so that a hundred possible fetches do not hide one takeover."""
    possible, faults = world.possible(), world.faults()
    chosen = faults if faults and (not possible or rng.random() < likelihood) else possible
    if not chosen:
        return None
    kind = rng.choice(sorted({str(action[0]) for action in chosen}))
    action = rng.choice([one for one in chosen if one[0] == kind])
    if kind == "fetch" and rng.random() < 0.7:
        return (*action[:3], "now")
    return action


def settle(world: World, revive: bool, readers: Readers | None = None) -> str:
    """A fair run without faults, and one more record for each partition; what is not settled in the end.

    `readers` then read all that is there.
    """
    try:
        if revive:
            for b, broker in world.brokers.items():
                if not broker.up:
                    world.do(("start", b))
        if not _rest_and_elect(world):
            return "never comes to rest"
        while world.is_heard and (action := world.plan_walks.next_of_drain(world)) is not None:
            before = world.rows().metadata_version
            world.do(action)
            if world.rows().metadata_version == before or not _rest_and_elect(world):
                return "a drain does not go on"
        world.values += 1
        for key in world.keys:
            leader = world.brokers.get(world.rows().partitions[key].leader)
            if leader is not None and key in leader.replicas and leader.replicas[key].leads:
                world.do(("append", leader.broker_id, key))
        if not _rest(world):
            return "never comes to rest"
        if text := readers.read_on(world) if readers is not None else "":
            return text
    except Broken as broken:
        world.broken = str(broken)
        return world.broken
    if world.database.folded() != world.rows() or world.database.load() != world.rows():
        return "journal, rows and load differ"
    unsettled = (text for key in world.keys if (text := _unsettled(world, key)))
    return next(unsettled, "") or _left_over(world)


def _left_over(world: World) -> str:
    trackers = (world.over_time, world.plan_walks, world.losses)
    return next(filter(None, (one.left_over(world) for one in trackers)), "")


def _rest_and_elect(world: World) -> bool:
    """Where nobody may lead but uncleanly, the next pass elects; a plan may go on then, and need another."""
    version = -1
    while _rest(world):
        if not world.losses.is_lossy or version == world.rows().metadata_version:
            return True
        version = world.rows().metadata_version
        world.do(("balance",))
    return False


def _rest(world: World) -> bool:
    """Do what may happen, in rounds and without loss, until nothing changes in so many of them.

    A follower leaves out for one fetch what it could not store: the round behind it may change nothing.
    """
    unchanged = 0
    for _ in range(ROUNDS_AT_MOST):
        before = _fingerprint(world)
        for kind in FAIR_ORDER:
            for action in [a for a in world.possible() if a[0] == kind]:
                if action in world.possible() and not _is_unfair(world, action):
                    world.do(action)
        unchanged = unchanged + 1 if _fingerprint(world) == before else 0
        if unchanged == world.rounds_of_rest:
            return True
    return False


def _is_unfair(world: World, action: Action) -> bool:
    """A fair run loses no answer, ends no session of who is there, and drops only who is away."""
    match action:
        case ("fetch", _, _, fate):
            return fate == "lost"
        case ("expire", int(b)):
            # A process that waits for the session of the one before it is not there yet.
            return world.brokers[b].up and world.rows().brokers[b].incarnation == incarnation(
                world.brokers[b].run
            )
        case ("propose", int(b), key, lag_time_max_ms) if lag_time_max_ms != NEVER_LAGS:
            behind = laggards(world.brokers[b].replicas[key])  # type: ignore[index]
            return any(world.brokers[m].up for m in behind)
    return False


def _fingerprint(world: World) -> object:
    return (
        world.progress(),
        world.rows().metadata_version,
        [(link.link_id, len(link.to_broker), len(link.to_controller)) for link in world.links],
        len(world.finished_work),
        [
            (
                # What lies behind a link that the controller has closed is still heeded.
                None if broker.link is None else len(broker.link.to_broker),
                broker.view.metadata_version,
                [(k, r.high_watermark, r.log.end_offset, r.pending) for k, r in broker.replicas.items()],
            )
            for broker in world.brokers.values()
        ],
    )


def _unsettled(world: World, key: tuple) -> str:  # type: ignore[type-arg]
    row = world.rows().partitions[key]
    up = {b for b, broker in world.brokers.items() if broker.up}
    if row.is_unproven and not up >= set(row.assigned):
        # As long as nobody has lost patience.
        return ""
    if row.leader not in up:
        any_leads = never_led(row) or is_unclean(world, row)
        return "no leader" if up & set(row.assigned if any_leads else row.isr) else ""
    leader = world.brokers[row.leader]
    replica = leader.replicas.get(key)
    if replica is None or not replica.leads or replica.leader_epoch != row.leader_epoch:
        return "the leader does not know it"
    if replica.min_insync_replicas != world.configuring.least(world, key[0]):
        return "the leader has another min.insync.replicas than its topic"
    if replica.pending is not None:
        return "a proposal is pending for ever"
    if not set(row.assigned) & up <= set(row.isr):
        return "a live replica stays out of the ISR"
    if set(row.isr) <= up:
        enough = len(row.isr) >= min(replica.min_insync_replicas, row.settled_count)
        if enough and replica.high_watermark != replica.log.end_offset:
            return "the high watermark stands still"
        records = leader.logs[key].records
        if any(world.brokers[b].logs[key].records != records for b in row.isr):
            return "replicas differ at rest"
    active = world.rows().reassignments.get(key)
    if active is not None and set(active.target) <= up:
        return "the reassignment does not end"
    return ""
