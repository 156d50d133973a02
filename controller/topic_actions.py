"""This room is what operators do to topics on pages: create, resize, configure, delete, elect leaders."""

import re
from typing import Any

import msgspec
from django.db.models import BooleanField, Count, F, Max, Q, QuerySet, Sum
from django.db.models.expressions import RawSQL
from django.http import Http404
from django.urls import reverse

from access.rest.problems import Problem
from controller import placing
from controller.actions import Action, Stated, Target, brokers_of, valid, whole
from controller.config_values import KeyRow, rows_of_topic
from controller.models import Broker, Partition, Topic
from controller.topics_api import GrowthShape, NewTopicShape, RemovalShape
from muster.kernel.scopes import EVERYTHING
from muster.messages.link import from_broker
from muster.messages.link.configs import AlterConfigs, AlteredConfigs, Change, ConfigChange, ResourceType
from muster.messages.link.from_broker import (
    CreatePartitions,
    CreateTopics,
    DeleteTopics,
    ElectLeaders,
    NamedTopic,
    Wish,
)
from muster.messages.link.to_broker import CreateTopicsAnswer, WishAnswer

ASSIGNMENTS_SHOWN = 20
PARTITIONS_SHOWN = 20


def topic_target(name: str) -> Target:
    """A topic by its name, at its row's version. Raises Http404."""
    found = Topic.objects.filter(name=name).first() if "\x00" not in name else None
    if found is None:
        raise Http404("no such topic")
    crumbs = (("Topics", reverse("topics")), (found.name, reverse("topic", args=[found.name])))
    return Target(found.name, crumbs, str(found.metadata_version), found)


class _OfTopic(Action):
    """An action on one topic."""

    named_by = frozenset({"name"})

    def target(self, **address: Any) -> Target:
        return topic_target(address["name"])


class CreateTopic(Action):
    """A new topic, placed by the controller or as somebody says."""

    title = "Create a topic"
    fields = "controller/fields_create_topic.html"
    would = "controller/would_place.html"

    def target(self, **address: Any) -> Target:
        return Target("", (("Topics", reverse("topics")),))

    def wish(self, target: Target, stated: Stated, version: str) -> CreateTopics:
        body: dict[str, Any] = {"topic": stated.get("topic", "").strip(), "reason": stated.get("reason", "")}
        if stated.get("partitions", "").strip():
            body["partitions"] = whole(stated["partitions"], "Partitions")
        if stated.get("replication_factor", "").strip():
            body["replication_factor"] = whole(stated["replication_factor"], "Replicas")
        if stated.get("configs", "").strip():
            body["configs"] = _configs(stated["configs"])
        if stated.get("assignments", "").strip():
            body["assignments"] = _assignments(stated["assignments"])
        return valid(NewTopicShape(data=body)).wish()  # type: ignore[attr-defined, no-any-return]

    def trial(self, wish: Wish) -> Wish:
        return msgspec.structs.replace(wish, validate_only=True)

    def consequences(self, target: Target, wish: Wish, judged: WishAnswer | None) -> dict[str, Any]:
        assert isinstance(wish, CreateTopics)
        [topic] = wish.topics
        given = [topic.assignments[number] for number in range(len(topic.assignments))]
        # What was left to the cluster's defaults the controller has told.
        counts = judged.topics[0] if isinstance(judged, CreateTopicsAnswer) else None
        count, factor = (counts.partition_count, counts.replication_factor) if counts else (0, 0)
        return {
            "topic": topic,
            "before": 0,
            "after": count,
            "factor": factor,
            "configs": sorted(topic.configs.items()),
            **shown_placement(placing.of_new(count, factor, given), first=0),
        }


class AddPartitions(_OfTopic):
    """More partitions for a topic."""

    title = "Add partitions"
    fields = "controller/fields_add_partitions.html"
    would = "controller/would_place.html"

    def wish(self, target: Target, stated: Stated, version: str) -> CreatePartitions:
        body: dict[str, Any] = {
            "partitions": whole(stated.get("partitions", ""), "Partitions"),
            "reason": stated.get("reason", ""),
        }
        if stated.get("assignments", "").strip():
            body["assignments"] = _assignments(stated["assignments"])
        shape = valid(GrowthShape(data=body))
        return shape.wish(target.row.name, int(version))  # type: ignore[attr-defined, no-any-return]

    def trial(self, wish: Wish) -> Wish:
        return msgspec.structs.replace(wish, validate_only=True)

    def consequences(self, target: Target, wish: Wish, judged: WishAnswer | None) -> dict[str, Any]:
        assert isinstance(wish, CreatePartitions)
        [grown] = wish.topics
        before = target.row.partition_count
        placed = placing.of_new(
            max(0, grown.partition_count - before), target.row.replication_factor, grown.assignments or ()
        )
        return {
            "before": before,
            "after": grown.partition_count,
            **shown_placement(placed, first=before),
        }


class RemovePartitions(_OfTopic):
    """The highest partitions of a topic, with their records."""

    title = "Remove partitions"
    loses = True
    by_name = True
    fields = "controller/fields_remove_partitions.html"
    would = "controller/would_remove_partitions.html"

    def wish(self, target: Target, stated: Stated, version: str) -> from_broker.RemovePartitions:
        body = {
            "partitions": whole(stated.get("partitions", ""), "Partitions"),
            "force": stated.get("force", "") == "yes",
            "reason": stated.get("reason", ""),
        }
        shape = valid(RemovalShape(data=body))
        # Whoever may operate on pages may see every group.
        return shape.wish(target.row.name, int(version), EVERYTHING)  # type: ignore[attr-defined, no-any-return]

    def trial(self, wish: Wish) -> Wish:
        return msgspec.structs.replace(wish, validate_only=True)

    def consequences(self, target: Target, wish: Wish, judged: WishAnswer | None) -> dict[str, Any]:
        assert isinstance(wish, from_broker.RemovePartitions)
        gone = Partition.objects.filter(topic_id=target.row.topic_id, partition__gte=wish.partition_count)
        shown = gone.select_related("progress").order_by("partition")[:PARTITIONS_SHOWN]
        removed = target.row.partition_count - wish.partition_count
        return {
            "before": target.row.partition_count,
            "after": wish.partition_count,
            "removed": removed,
            "shown": list(shown),
            "more": max(0, removed - PARTITIONS_SHOWN),
            **_held(gone),
        }


class DeleteTopic(_OfTopic):
    """A topic with all its records, and what groups committed for it."""

    title = "Delete the topic"
    loses = True
    by_name = True
    would = "controller/would_delete_topic.html"

    def wish(self, target: Target, stated: Stated, version: str) -> DeleteTopics:
        named = NamedTopic(
            name=target.row.name, expected_version=int(version), expected_id=target.row.topic_id
        )
        return DeleteTopics(topics=(named,))

    def consequences(self, target: Target, wish: Wish, judged: WishAnswer | None) -> dict[str, Any]:
        return {"topic": target.row, **_held(Partition.objects.filter(topic_id=target.row.topic_id))}


class ChangeConfigs(_OfTopic):
    """Other configs of a topic; what is left empty is as the cluster says."""

    title = "Change configs"
    fields = "controller/fields_configs.html"
    would = "controller/would_configs.html"

    def target(self, **address: Any) -> Target:
        found = topic_target(address["name"])
        found.facts["keys"] = rows_of_topic(found.row)
        return found

    def wish(self, target: Target, stated: Stated, version: str) -> AlterConfigs:
        changes = []
        for known in target.facts["keys"]:
            given = stated.get(f"config.{known.name}")
            if given is None or given.strip() == known.set_to:
                continue
            if given.strip():
                changes.append(ConfigChange(known.name, Change.SET, given.strip()))
            else:
                changes.append(ConfigChange(known.name, Change.DELETE))
        if not changes:
            raise Problem(400, "Nothing is other than it is: change at least one value.")
        one = AlteredConfigs(
            type=int(ResourceType.TOPIC),
            name=target.row.name,
            changes=tuple(changes),
            expected_version=int(version),
        )
        return AlterConfigs(resources=(one,))

    def trial(self, wish: Wish) -> Wish:
        return msgspec.structs.replace(wish, validate_only=True)

    def consequences(self, target: Target, wish: Wish, judged: WishAnswer | None) -> dict[str, Any]:
        assert isinstance(wish, AlterConfigs)
        by_name: dict[str, KeyRow] = {one.name: one for one in target.facts["keys"]}
        [asked] = wish.resources
        return {
            "changes": [
                (by_name[one.key], one.value if one.change is Change.SET else None) for one in asked.changes
            ]
        }


def shown_placement(placed: placing.Placement, *, first: int) -> dict[str, Any]:
    """What a template tells of where partitions would be."""
    shown = placed.assignments[:ASSIGNMENTS_SHOWN]
    return {
        "placed": placed,
        "assignments": list(enumerate(shown, start=first)),
        "more": len(placed.assignments) - len(shown),
    }


class ElectPreferred(Action):
    """Whoever stands first for a partition leads it again, all over the cluster: such as after a restart."""

    title = "Elect the preferred leaders"
    section = "cluster"
    would = "controller/would_elect_preferred.html"

    def target(self, **address: Any) -> Target:
        return Target("", (("Brokers", reverse("brokers")),))

    def wish(self, target: Target, stated: Stated, version: str) -> ElectLeaders:
        return ElectLeaders(correlation_id=0)

    def consequences(self, target: Target, wish: Wish, judged: WishAnswer | None) -> dict[str, Any]:
        kept = _led_by_others(target)
        counted = kept.values("first").annotate(
            partitions=Count("id"), in_sync=Count("id", filter=Q(is_in_sync=True))
        )
        away = set(Broker.objects.filter(fenced=True).values_list("broker_id", flat=True))
        brokers = [one | {"away": one["first"] in away} for one in counted.order_by("first")]
        return {"brokers": brokers, "changes": any(one["in_sync"] and not one["away"] for one in brokers)}


class ElectPreferredOfTopic(_OfTopic, ElectPreferred):
    """The same of one topic."""

    section = "topics"

    def wish(self, target: Target, stated: Stated, version: str) -> ElectLeaders:
        kept = _led_by_others(target).order_by("partition").values_list("partition", flat=True)
        return ElectLeaders(correlation_id=0, partitions=tuple((target.row.name, number) for number in kept))


def _led_by_others(target: Target) -> Any:
    """A query of partitions, all or a topic's, that are not led by the first of their replicas (`first`)."""
    rows = Partition.objects.annotate(
        first=F("assigned__0"),
        # Of an unproven one nobody is known to be in sync before its replicas have shown their logs.
        is_in_sync=RawSQL(
            "assigned[1] = ANY (isr) AND (leader >= 0 OR unproven = 0)", (), output_field=BooleanField()
        ),
    ).exclude(leader=F("first"))
    return rows if target.row is None else rows.filter(topic_id=target.row.topic_id)


def _held(partitions: QuerySet[Partition]) -> dict[str, Any]:
    """What these hold, as far as their leaders said."""
    return partitions.aggregate(
        partitions=Count("id"),
        records=Sum("progress__high_watermark"),
        size=Sum("progress__size_bytes"),
        said_at=Max("progress__at"),
    )


def _configs(text: str) -> dict[str, str]:
    """One `key=value` a line. Raises Problem."""
    found: dict[str, str] = {}
    for line in filter(None, map(str.strip, text.splitlines())):
        key, sign, value = line.partition("=")
        if not sign or not key.strip():
            raise Problem(400, f"Configs: write one key=value a line; {line[:60]!r} is none.")
        if key.strip() in found:
            raise Problem(400, f"Configs: {key.strip()[:60]} is named twice.")
        found[key.strip()] = value.strip()
    return found


def _assignments(text: str) -> list[list[int]]:
    """The brokers of one partition a line. Raises Problem."""
    return [brokers_of(line) for line in re.split(r"[\n;]", text) if line.strip()]
