"""This room says where the controller would place new partitions now, and what brokers would hold then."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from django.db import connection

from controller.conditions import OFFLINE
from controller.core.placement import Place, place
from controller.models import Broker

_HELD = """
    SELECT replica, sum(held)::int, COALESCE(sum(held) FILTER (WHERE assigned[1] = replica), 0)::int
    FROM (SELECT assigned, count(*) AS held FROM partition GROUP BY 1) AS alike, unnest(assigned) AS replica
    GROUP BY replica
"""


_IN_TROUBLE = f"""
    SELECT broker_id FROM broker_condition WHERE short_since IS NOT NULL
    UNION SELECT log_note.broker_id FROM log_note JOIN partition USING (topic_id, partition)
    WHERE state = '{OFFLINE}' AND log_note.broker_id = ANY (assigned)
"""


@dataclass(frozen=True, slots=True)
class BrokerThen:
    """What one broker holds, and would hold: replicas, and partitions that it stands first for."""

    broker_id: int
    rack: str
    is_live: bool
    replicas: int
    replicas_then: int
    leaders: int
    leaders_then: int


@dataclass(frozen=True, slots=True)
class Placement:
    """The brokers of each new partition, its preferred leader first, and what each broker would hold."""

    assignments: list[tuple[int, ...]]
    brokers: list[BrokerThen]


def of_new(count: int, factor: int, given: Sequence[Sequence[int]] = ()) -> Placement:
    """As the controller would place them, or where they are `given`; nothing if there are too few brokers."""
    rows = list(Broker.objects.defer("secret_hash").order_by("broker_id"))
    with connection.cursor() as cursor:
        cursor.execute(_HELD)
        held = {broker_id: (replicas, leaders) for broker_id, replicas, leaders in cursor.fetchall()}
    troubled = _in_trouble()
    places = [
        Place(row.broker_id, row.rack, row.broker_id in troubled, row.fenced or row.leaving)
        for row in rows
        if row.broker_epoch and not row.cordoned
    ]
    assignments = [tuple(one) for one in given]
    somebody_is_here = not all(one.is_away for one in places)
    if not assignments and somebody_is_here and len(places) >= factor > 0:
        led = Counter({broker_id: leaders for broker_id, (_, leaders) in held.items()})
        assignments = place(places, count, factor, led)
    comes = Counter(broker_id for one in assignments for broker_id in one)
    leads = Counter(one[0] for one in assignments)
    return Placement(
        assignments,
        [
            BrokerThen(
                row.broker_id,
                row.rack,
                not row.fenced,
                held.get(row.broker_id, (0, 0))[0],
                held.get(row.broker_id, (0, 0))[0] + comes[row.broker_id],
                held.get(row.broker_id, (0, 0))[1],
                held.get(row.broker_id, (0, 0))[1] + leads[row.broker_id],
            )
            for row in rows
        ],
    )


def _in_trouble() -> set[int]:
    """As the controller knows it by what brokers said last, a second earlier (`controller.core.topics`)."""
    with connection.cursor() as cursor:
        cursor.execute(_IN_TROUBLE)
        return {broker_id for (broker_id,) in cursor.fetchall()}
