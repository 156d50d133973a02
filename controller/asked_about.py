"""This room says in a word what requests to the controller are about, and what can become of one."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from django.db.models import JSONField
from django.db.models.expressions import RawSQL

from muster.messages.link.configs import ResourceType
from muster.messages.link.quotas import Entity

NAMED_AT_MOST: Final = 3
"""Of one request: it may name ten thousand partitions."""

_OF_A_THING: Final = ("name", "topic_id", "topic", "partition", "type", "entity")
_OF_A_WISH: Final = ("topic", "broker_id", "plan_id")
_FIRST: Final = f"0 to {NAMED_AT_MOST - 1}"


def _only(fields: Iterable[str], of: str) -> str:
    """SQL for an object with these fields of another one."""
    listed = ", ".join(f"'{name}', {of} -> '{name}'" for name in fields)
    return f"jsonb_build_object({listed})"


_BESIDE_WHOLE_TOPICS: Final = """(
    SELECT coalesce(jsonb_agg(one ORDER BY place), '[]')
    FROM jsonb_array_elements(nullif(wish -> 'partitions', 'null')) WITH ORDINALITY AS named (one, place)
    WHERE NOT EXISTS (
        SELECT FROM jsonb_array_elements_text(wish -> 'whole_topics') AS topic WHERE topic = one ->> 0))"""
_NAMED: Final = f"""CASE WHEN wish -> 'whole_topics' <> '[]'
    THEN (wish -> 'whole_topics') || {_BESIDE_WHOLE_TOPICS}
    ELSE nullif(coalesce(wish -> 'topics', wish -> 'partitions', wish -> 'resources', wish -> 'losses',
        wish -> 'alterations'), 'null') END"""
"""Where wishes say what they are about."""

ABOUT: Final = RawSQL(
    f"""(SELECT {_only(_OF_A_WISH, "wish")} || jsonb_build_object(
        'count', coalesce(jsonb_array_length(named), 0),
        'first', (SELECT coalesce(jsonb_agg(CASE jsonb_typeof(one) WHEN 'object'
                THEN {_only(_OF_A_THING, "one")} ELSE one END), '[]')
            FROM jsonb_array_elements(jsonb_path_query_array(named, '$[{_FIRST}]')) AS one),
        'brokers_of_plan', wish #> '{{options,brokers}}',
        'topics_of_plan', wish #> '{{options,topics}}',
        'is_trial', wish -> 'validate_only',
        'proposed', CASE wish ->> 'type' WHEN 'ProposePlan' THEN result -> 'plan_id' END)
    FROM (SELECT payload -> 'wish' AS wish OFFSET 0) AS own
        CROSS JOIN LATERAL (SELECT {_NAMED} AS named OFFSET 0) AS of_it)""",
    (),
    output_field=JSONField(),
)
"""Of a request's row what `about` reads: some hundred letters, however much it says, unpacked once."""


class Verdict(StrEnum):
    """What became of a request as a whole."""

    WAITING = "waiting"
    """The controller has not answered yet."""

    DONE = "done"
    """All of it was carried out."""

    WOULD_BE_DONE = "would be done"
    """It was only to be judged; nothing changed."""

    PARTLY_DONE = "partly done"
    """Some of it was carried out; the results say what was not."""

    REFUSED = "refused"
    """Nothing of it was carried out."""

    FAILED = "failed"
    """There is no answer, and never will be; the text says why."""


@dataclass(frozen=True, slots=True)
class About:
    """A `topic`, `partition`, `broker`, `plan` or `quota` that a request names, or the `cluster`."""

    kind: str
    name: str = ""
    partition: int | None = None

    @property
    def label(self) -> str:
        """`flights`, `flights-5`, `broker 3`, `the cluster`."""
        if self.kind == "cluster":
            return "the cluster"
        name = self.name or "no name"
        if self.partition is not None:
            return f"{name}-{self.partition}"
        return f"{self.kind} {name}" if self.kind in ("broker", "plan") else name


def about(said: Mapping[str, Any]) -> tuple[tuple[About, ...], int]:
    """The first things that a request names, and how many there are; `said` is what ABOUT gives."""
    if plan_id := said["plan_id"] or said["proposed"]:
        return (About("plan", plan_id),), 1
    if said["broker_id"] is not None:
        return (About("broker", str(said["broker_id"])),), 1
    if said["topic"] is not None:
        return (About("topic", said["topic"]),), 1
    if named := tuple(_thing(one) for one in said["first"]):
        return named, said["count"]
    # Of a plan that was refused, or is not computed yet.
    named = tuple(About("broker", str(broker)) for broker in said["brokers_of_plan"] or ())
    named = named or tuple(About("topic", name) for name in said["topics_of_plan"] or ())
    return (named[:NAMED_AT_MOST], len(named)) if named else ((About("cluster"),), 1)


def _thing(one: Any) -> About:
    if isinstance(one, str):
        return About("topic", one)
    if isinstance(one, list):
        return About("partition", *one)
    if one["entity"] is not None:
        return About("quota", entity_name(one["entity"]))
    if one["topic"] is not None:
        return About("partition", one["topic"], one["partition"])
    if one["type"] in (None, ResourceType.TOPIC):
        # Kafka's clients may name a topic by its id alone.
        return About("topic", one["name"] or one["topic_id"] or "")
    return About("broker", one["name"]) if one["name"] else About("cluster")


def entity_name(entity: Entity) -> str:
    """Whom a quota is for, as Kafka's tools write it."""
    return " ".join(f"{kind}={'<default>' if name is None else name}" for kind, name in entity)
