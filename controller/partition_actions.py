"""This room is what operators do to one partition on pages: move it, cancel that, elect its leader."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django.http import Http404
from django.urls import reverse

from controller import choosing, conditions, copying
from controller.actions import Action, Stated, Target, brokers_of, megabytes, valid
from controller.models import NO_LEADER, Broker, Partition, Reassignment
from controller.reassignments_api import TargetsShape
from muster.messages.link.from_broker import AlterReassignments, ElectLeaders, WantedReplicas, Wish
from muster.messages.link.to_broker import WishAnswer


class _OfPartition(Action):
    """An action on one partition."""

    named_by = frozenset({"name", "number"})

    def target(self, **address: Any) -> Target:
        name, number = address["name"], address["number"]
        fits = "\x00" not in name and number < 2**31
        rows = Partition.objects.select_related("topic", "progress")
        found = rows.filter(topic__name=name, partition=number).first() if fits else None
        if found is None:
            raise Http404("no such partition")
        crumbs = (
            ("Topics", reverse("topics")),
            (name, reverse("topic", args=[name])),
            (f"Partition {number}", reverse("partition", args=[name, number])),
        )
        return Target(f"{name}-{number}", crumbs, str(found.version), found)


class MovePartition(_OfPartition):
    """Other brokers for a partition: the new replicas copy beside the old ones."""

    title = "Move the partition"
    section = "reassignments"
    fields = "controller/fields_move.html"
    would = "controller/would_move.html"

    def target(self, **address: Any) -> Target:
        found = super().target(**address)
        row = found.row
        found.facts["now"] = ", ".join(str(one) for one in row.assigned if one not in row.adding)
        found.facts["choice"] = choosing.choice()
        return found

    def wish(self, target: Target, stated: Stated, version: str) -> AlterReassignments:
        row = target.row
        throttle = megabytes(stated["throttle"], "Throttle") if stated.get("throttle", "").strip() else 0
        moved = {
            "topic": row.topic.name,
            "partition": row.partition,
            "replicas": brokers_of(stated.get("replicas", "")),
            "version": int(version),
        }
        body = {
            "partitions": [moved],
            "may_change_factor": "may_change_factor" in stated,
            "throttle": throttle,
            "reason": stated.get("reason", ""),
        }
        return valid(TargetsShape(data=body)).wish()  # type: ignore[attr-defined, no-any-return]

    def consequences(self, target: Target, wish: Wish, judged: WishAnswer | None) -> dict[str, Any]:
        assert isinstance(wish, AlterReassignments)
        row = target.row
        wanted = wish.partitions[0].replicas or ()
        settled = [one for one in row.assigned if one not in row.adding]
        comes = [one for one in wanted if one not in settled]
        progress = getattr(row, "progress", None)
        size = progress.size_bytes if progress else None
        known = {one.broker_id for one in target.facts["choice"].brokers}
        live = known - set(target.facts["choice"].fenced)
        return {
            "move": _Picture(settled, wanted),
            "comes": comes,
            "goes": [one for one in settled if one not in wanted],
            "unknown": [one for one in wanted if one not in known],
            "away": [one for one in comes if one in known and one not in live],
            "factor_changes": len(wanted) != len(settled) and not wish.may_change_factor,
            "copied": None if size is None else size * len(comes),
            "throttle": wish.throttle,
            "produced": copying.produced(row.id),
            "seconds": size * len(comes) / wish.throttle if size and wish.throttle else None,
            "leads_then": wanted[0] if wanted else None,
        }


class ElectLeader(_OfPartition):
    """The first of its replicas leads again."""

    title = "Elect the preferred leader"
    would = "controller/would_elect.html"

    def wish(self, target: Target, stated: Stated, version: str) -> ElectLeaders:
        return ElectLeaders(correlation_id=0, partitions=((target.row.topic.name, target.row.partition),))

    def consequences(self, target: Target, wish: Wish, judged: WishAnswer | None) -> dict[str, Any]:
        row = target.row
        preferred = row.assigned[0]
        fenced = Broker.objects.filter(broker_id=preferred, fenced=True).exists()
        return {
            "row": row,
            "preferred": preferred,
            "offline": row.leader == NO_LEADER,
            "needless": row.leader == preferred,
            "unproven": row.leader == NO_LEADER and bool(row.unproven),
            "away": fenced,
            "behind": preferred not in row.isr,
        }


class ElectAnyLive(_OfPartition):
    """Whoever lives leads, though it may lack committed records: they are lost then."""

    title = "Elect any live replica"
    loses = True
    by_name = True
    would = "controller/would_elect_any.html"

    def wish(self, target: Target, stated: Stated, version: str) -> ElectLeaders:
        partitions = ((target.row.topic.name, target.row.partition),)
        return ElectLeaders(correlation_id=0, partitions=partitions, unclean=True)

    def consequences(self, target: Target, wish: Wish, judged: WishAnswer | None) -> dict[str, Any]:
        row = target.row
        progress = getattr(row, "progress", None)
        holders = conditions.holders(row, progress.high_watermark if progress else None)
        chosen = next((one for one in holders if one.may_lead), None)
        return {
            "row": row,
            "needless": row.leader != NO_LEADER,
            "unproven": bool(row.unproven),
            "never_led": not row.isr,
            "holders": holders,
            "chosen": chosen,
            "progress": progress,
            "saviours": [b.broker_id for b in holders if (b.in_isr or row.unproven) and not b.may_lead],
        }


class CancelMove(Action):
    """A partition that is on its way stays where it was."""

    title = "Cancel the move"
    named_by = frozenset({"move_id"})
    section = "reassignments"
    loses = True
    would = "controller/would_cancel.html"

    def target(self, **address: Any) -> Target:
        found = Reassignment.objects.filter(id=address["move_id"]).first()
        if found is None:
            raise Http404("no such reassignment")
        crumbs = (("Reassignments", reverse("reassignments")),)
        return Target(f"{found.topic_name}-{found.partition}", crumbs, str(found.version), found)

    def wish(self, target: Target, stated: Stated, version: str) -> AlterReassignments:
        row = target.row
        wanted = WantedReplicas(topic=row.topic_name, partition=row.partition, expected_move=row.id)
        return AlterReassignments(partitions=(wanted,))

    def consequences(self, target: Target, wish: Wish, judged: WishAnswer | None) -> dict[str, Any]:
        return {"move": target.row, "over": target.row.phase not in ("Init", "InProgress")}


@dataclass(frozen=True, slots=True)
class _Picture:
    """As much of a move as the picture of its replicas needs."""

    origin: Sequence[int]
    target: Sequence[int]
