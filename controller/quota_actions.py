"""This room is what operators do to quotas of clients on pages: set one, change it, take it away."""

from typing import Any, Final

import msgspec
from django.http import Http404
from django.urls import reverse

from controller.actions import FIELDS, MEGABYTE, Action, Stated, Target, megabytes, valid
from controller.models import Broker, ClientQuota
from controller.quotas_api import RatesShape, Whom
from muster.kernel.client_quotas import CONSUMER_BYTE_RATE, DEFAULT, PRODUCER_BYTE_RATE
from muster.messages.link.from_broker import Wish
from muster.messages.link.quotas import AlterClientQuotas
from muster.messages.link.to_broker import WishAnswer

_CRUMBS: Final = "Quotas"


class _OfQuotas(Action):
    """An action on one quota."""

    section = "cluster"
    would = "controller/would_quota.html"

    def trial(self, wish: Wish) -> Wish | None:
        assert isinstance(wish, AlterClientQuotas)
        return msgspec.structs.replace(wish, validate_only=True)

    def consequences(self, target: Target, wish: Wish, judged: WishAnswer | None) -> dict[str, Any]:
        assert isinstance(wish, AlterClientQuotas)
        (alteration,) = wish.alterations
        named = {kind: name or DEFAULT for kind, name in alteration.entity}
        whom = Whom(named.get("user"), named.get("client-id"))
        rates = {one.key: one.value for one in alteration.operations}
        row, brokers = whom.row(), Broker.objects.filter(fenced=False).count()
        return {
            "whom": in_words(whom),
            "rates": [
                (does, getattr(row, key, None), rates.get(key), (rates.get(key) or 0) * brokers)
                for key, does in ((PRODUCER_BYTE_RATE, "produce"), (CONSUMER_BYTE_RATE, "fetch"))
            ],
            "taken_away": not any(rates.values()),
            "brokers": brokers,
            **_neighbours(whom),
        }


class SetQuota(_OfQuotas):
    """A quota for whoever has none yet."""

    title = "Set a quota"
    fields = "controller/fields_quota.html"

    def target(self, **address: Any) -> Target:
        facts = dict.fromkeys((PRODUCER_BYTE_RATE, CONSUMER_BYTE_RATE), "")
        return Target("", ((_CRUMBS, reverse("quotas")),), "0", None, facts)

    def wish(self, target: Target, stated: Stated, version: str) -> AlterClientQuotas:
        said = {name: stated.get(name, "").strip() for name in ("user", "client_id")}
        whom = Whom.of({name: text for name, text in said.items() if text})
        return _altered(whom, _rates(stated), 0)


class _OfOneQuota(_OfQuotas):
    """An action on a quota that there is."""

    named_by = frozenset({"quota_id"})

    def target(self, **address: Any) -> Target:
        fits = address["quota_id"] < 2**63
        found = ClientQuota.objects.filter(pk=address["quota_id"]).first() if fits else None
        if found is None:
            raise Http404("no such quota")
        whom = in_words(Whom(found.user_name, found.client_id))
        facts = {
            key: "" if rate is None else f"{rate / MEGABYTE:f}".rstrip("0").rstrip(".")
            for key in (PRODUCER_BYTE_RATE, CONSUMER_BYTE_RATE)
            for rate in (getattr(found, key),)
        }
        return Target(whom, ((_CRUMBS, reverse("quotas")),), str(found.version), found, facts)


class ChangeQuota(_OfOneQuota):
    """Other rates for the same."""

    title = "Change the quota"
    fields = "controller/fields_rates.html"

    def wish(self, target: Target, stated: Stated, version: str) -> AlterClientQuotas:
        row = target.row
        return _altered(Whom(row.user_name, row.client_id), _rates(stated), int(version))


class RemoveQuota(_OfOneQuota):
    """The next wider quota holds then, if there is one."""

    title = "Take the quota away"

    def wish(self, target: Target, stated: Stated, version: str) -> AlterClientQuotas:
        row = target.row
        none: dict[str, int | None] = {PRODUCER_BYTE_RATE: None, CONSUMER_BYTE_RATE: None}
        return _altered(Whom(row.user_name, row.client_id), none, int(version))


def in_words(whom: Whom) -> str:
    """`user olga`, `each user without a quota of their own, client id till`."""
    words = []
    if whom.user is not None:
        words.append(f"user {whom.user}" if whom.user else "each user without a quota of their own")
    if whom.client_id is not None:
        named = f"client id {whom.client_id}"
        words.append(named if whom.client_id else "each client id without a quota of its own")
    return ", ".join(words)


def _altered(whom: Whom, rates: dict[str, int | None], version: int) -> AlterClientQuotas:
    return msgspec.structs.replace(whom.alteration(rates), expected_version=version)


def _rates(stated: Stated) -> dict[str, int | None]:
    """Bytes a second by key. Raises Problem, serializers.ValidationError."""
    rates = {key: _bytes(stated, key) for key in (PRODUCER_BYTE_RATE, CONSUMER_BYTE_RATE)}
    shape = valid(RatesShape(data={**rates, "reason": stated.get("reason", "")}))
    return {key: shape.validated_data[key] for key in rates}


def _bytes(stated: Stated, key: str) -> int | None:
    text = stated.get(key, "").strip()
    return megabytes(text, FIELDS[key]) if text else None


def _neighbours(whom: Whom) -> dict[str, Any]:
    """How many quotas go before this one for some of those it is for, and which one holds without it."""
    others = [Whom(*names) for names in ClientQuota.objects.values_list("user_name", "client_id")]
    pairs = [(one, tuple(zip(one, whom, strict=True))) for one in others if one != whom]
    nearer = [one for one, parts in pairs if _rank(one) < _rank(whom) and all(_may_meet(*p) for p in parts)]
    wider = [one for one, parts in pairs if _rank(one) > _rank(whom) and all(_covers(*p) for p in parts)]
    return {"nearer": len(nearer), "wider": in_words(min(wider, key=_rank)) if wider else ""}


def _rank(whom: Whom) -> int:
    """Kafka's order (KIP-55), the first holds: a name goes before the default, and that before any."""
    user, client_id = (0 if part else 1 if part == DEFAULT else 2 for part in whom)
    return 3 * user + client_id


def _may_meet(one: str | None, other: str | None) -> bool:
    return not one or not other or one == other


def _covers(wide: str | None, narrow: str | None) -> bool:
    return not wide or wide == narrow
