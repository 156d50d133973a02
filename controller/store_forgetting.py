"""This room forgets moves and plans that ended long ago, when the journal forgets who asked for them.

What elections lost is forgotten a year after the last word of it, where nobody will say more. A plan goes
with its steps and the moves that it asked for; one of which a move is still under way stays.
"""

from typing import Final

from access.forgetting import RETENTION_DAYS as YEAR_DAYS
from runtime.journal import BATCH_ROWS, RETENTION_DAYS
from runtime.ports import Connection

_OLD_PLANS: Final = """
    SELECT id FROM plan
    WHERE phase IN ('Done', 'Cancelled', 'Failed') AND ended_at < now() - make_interval(days => %(days)s)
        AND NOT EXISTS (SELECT FROM reassignment AS move
            WHERE move.plan_id = plan.id AND move.phase IN ('Init', 'InProgress'))"""

_FORGET_MOVES: Final = """
WITH old AS (
    SELECT id FROM reassignment AS move
    WHERE phase NOT IN ('Init', 'InProgress') AND ended_at < now() - make_interval(days => %(days)s)
        AND NOT EXISTS (SELECT FROM plan WHERE plan.id = move.plan_id
            AND (phase NOT IN ('Done', 'Cancelled', 'Failed')
                OR ended_at >= now() - make_interval(days => %(days)s)))
    LIMIT %(rows)s),
arrivals AS (DELETE FROM arrival USING old WHERE arrival.move_id = old.id)
DELETE FROM reassignment USING old WHERE reassignment.id = old.id"""

_FORGET_STEPS: Final = f"""
DELETE FROM plan_step WHERE id IN (
    SELECT id FROM plan_step WHERE plan_id IN ({_OLD_PLANS}) LIMIT %(rows)s)"""

_FORGET_PLANS: Final = f"""
DELETE FROM plan WHERE id IN ({_OLD_PLANS} LIMIT %(rows)s)
    AND NOT EXISTS (SELECT FROM plan_step WHERE plan_step.plan_id = plan.id)"""

_FORGET_LOSSES: Final = """
DELETE FROM election_loss WHERE id IN (
    SELECT id FROM election_loss
    WHERE closed
        AND greatest(elected_at, told_at, cut_at, acknowledged_at) < now() - make_interval(days => %(days)s)
    LIMIT %(rows)s)"""


def forget_moves(connection: Connection, days: int = RETENTION_DAYS, rows: int = BATCH_ROWS) -> int:
    """Delete one batch of reassignments that ended more than `days` ago, unless a plan that is kept asked for
    them, and return how many; fewer than `rows`: none is left.
    """
    return int(connection.execute(_FORGET_MOVES, {"days": days, "rows": rows}).rowcount)


def forget_plans(connection: Connection, days: int = RETENTION_DAYS, rows: int = BATCH_ROWS) -> int:
    """Delete one batch of steps of plans that ended more than `days` ago, and the plans that have none left.

    Returns how many steps; fewer than `rows`: none is left.
    """
    limits = {"days": days, "rows": rows}
    steps = int(connection.execute(_FORGET_STEPS, limits).rowcount)
    if steps < rows:
        connection.execute(_FORGET_PLANS, limits)
    return steps


def forget_losses(connection: Connection, days: int = YEAR_DAYS, rows: int = BATCH_ROWS) -> int:
    """Delete one batch of elections of which nobody has said anything for `days`, and nobody will.

    Returns how many; fewer than `rows`: none is left. What nobody has acknowledged stays while its partition
    does, and what somebody has while a replica may still tell more.
    """
    return int(connection.execute(_FORGET_LOSSES, {"days": days, "rows": rows}).rowcount)
