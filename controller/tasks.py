"""This room computes leaders in bulk in a worker: it reads rows and returns proposals, nothing else.

002 A, B and D: on_broker_change, on_topic_change, on_controller_failover. The controller's lane adopts what
still fits (design chapter 4.1); a worker never locks a lease or a partition row.
"""

from collections.abc import Callable
from typing import Any
from uuid import UUID

import msgspec
from psycopg import Connection

from controller import configuration, statements
from controller.core.draft import levels_of, policy_of
from controller.core.election import Policy
from controller.core.proposing import Task, propose
from runtime.work import WorkRow

FUNCTION = "controller.tasks:propose_leaders"
"""How `runtime.work` finds it."""


def propose_leaders(connection: Connection[Any], item: WorkRow) -> Callable[[], Any]:
    """Read how all partitions stand that the item's task concerns; computed are leaders and ISRs, as JSON."""
    task = Task(item.kind)
    settings = configuration.from_environment().core
    with connection.cursor() as cursor:
        live = {broker_id for (broker_id,) in cursor.execute(statements.READ_LIVE)}
        if task is Task.TOPIC_CHANGE:
            cursor.execute(statements.READ_CONFIGS_OF_TOPIC, {"topic_id": UUID(item.key)})
        else:
            cursor.execute(statements.READ_CONFIGS)
        configs: dict[UUID, dict[str, str]] = dict(cursor.fetchall())
        cluster = cursor.execute(statements.READ_CLUSTER_CONFIGS).fetchone()
        cursor.execute(statements.GATHER_ALIKE)
        match task:
            case Task.BROKER_CHANGE:
                cursor.execute(statements.READ_SEATS_OF_BROKER, {"broker_id": int(item.key)})
            case Task.TOPIC_CHANGE:
                cursor.execute(statements.READ_SEATS_OF_TOPIC, {"topic_id": UUID(item.key)})
            case Task.CONTROLLER_FAILOVER:
                cursor.execute(statements.READ_SEATS_LEADERLESS)
        found = cursor.fetchone()
    levels = levels_of(cluster[0] if cluster else {}, settings)
    policies: dict[UUID, Policy] = {}

    def policy(topic_id: UUID) -> Policy:
        known = policies.get(topic_id)
        if known is None:
            known = policies[topic_id] = policy_of(configs.get(topic_id, {}), levels)
        return known

    # A broker whose death is the task may have said hello since; the lane knows, and decides then.
    gone = {int(item.key)} if task is Task.BROKER_CHANGE else set()

    def compute() -> Any:
        seats = statements.seats_found(found)
        return msgspec.to_builtins(propose(task, item.key, seats, live - gone, policy))

    return compute
