"""This room is what operators do to brokers on pages: cordon, take back into use, take out of the cluster."""

from typing import Any

from django.db.models import Count, Q
from django.http import Http404
from django.urls import reverse

from controller.actions import Action, Stated, Target
from controller.models import Broker, Partition
from muster.messages.link.brokers import CordonBroker, UnregisterBroker
from muster.messages.link.from_broker import Wish
from muster.messages.link.to_broker import WishAnswer


class _OfBroker(Action):
    """An action on one broker."""

    section = "cluster"
    named_by = frozenset({"broker_id"})
    would = "controller/would_broker.html"

    def target(self, **address: Any) -> Target:
        broker_id = address["broker_id"]
        rows = Broker.objects.defer("secret_hash")
        found = rows.filter(broker_id=broker_id).first() if broker_id < 2**31 else None
        if found is None:
            raise Http404("no such broker")
        label = f"broker {broker_id}"
        crumbs = (
            ("Brokers", reverse("brokers")),
            (f"Broker {broker_id}", reverse("broker", args=[broker_id])),
        )
        return Target(label, crumbs, str(found.metadata_version), found)

    def consequences(self, target: Target, wish: Wish, judged: WishAnswer | None) -> dict[str, Any]:
        broker_id = target.row.broker_id
        held = Partition.objects.filter(assigned__contains=[broker_id]).aggregate(
            replicas=Count("id"), leaders=Count("id", filter=Q(leader=broker_id))
        )
        return {"broker": target.row, "kind": type(self).__name__, **held}


class Cordon(_OfBroker):
    """No new replicas on it; what it has it keeps."""

    title = "Cordon the broker"

    def wish(self, target: Target, stated: Stated, version: str) -> CordonBroker:
        return CordonBroker(broker_id=target.row.broker_id, cordoned=True, expected_version=int(version))


class Uncordon(_OfBroker):
    """New replicas are placed on it again."""

    title = "Place replicas on it again"

    def wish(self, target: Target, stated: Stated, version: str) -> CordonBroker:
        return CordonBroker(broker_id=target.row.broker_id, cordoned=False, expected_version=int(version))


class Unregister(_OfBroker):
    """A broker that holds nothing is no part of the cluster any more."""

    title = "Take it out of the cluster"
    loses = True
    by_name = True

    def wish(self, target: Target, stated: Stated, version: str) -> UnregisterBroker:
        return UnregisterBroker(broker_id=target.row.broker_id, expected_version=int(version))
