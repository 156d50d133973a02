"""This room is the REST door of client quotas: who may send and fetch how much; the controller decides."""

import re
from typing import Any, Final, NamedTuple

from django.db.models import Q, QuerySet
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers
from rest_framework.permissions import BasePermission
from rest_framework.request import Request
from rest_framework.response import Response

from access.rest.conditions import IDEMPOTENCY_KEY, idempotency_key, not_a_tag, tag_of
from access.rest.paging import PageRequest, page_response
from access.rest.permissions import MayOperate, MayView, caller_of, require_whole_cluster
from access.rest.problems import Problem
from access.rest.shapes import Int64Field, example, lists
from access.rest.views import RestView, query_of
from access.tokens import Caller
from controller.models import ClientQuota
from controller.requests_api import AskedShape, ControllerRequestShape, ask, told
from controller.topics_api import REASON, reason_of
from muster.kernel.client_quotas import (
    CLIENT_ID,
    CONSUMER_BYTE_RATE,
    DEFAULT,
    LARGEST_RATE,
    NAME_LENGTH,
    PRODUCER_BYTE_RATE,
    USER,
)
from muster.kernel.error_codes import ErrorCode
from muster.messages.link.quotas import AlterClientQuotas, QuotaAlteration, QuotaOperation

DEFAULT_WORD: Final = "<default>"
"""How Kafka's tools write whoever is not named."""

_VERSION: Final = re.compile(r"\d{1,18}")

_USER = OpenApiParameter("user", description=f"A user's name, or {DEFAULT_WORD}; left out: any user.")
_CLIENT = OpenApiParameter(
    "client_id", description=f"A client id, or {DEFAULT_WORD}; left out: any client id."
)

_IF_MATCH = OpenApiParameter(
    "If-Match",
    OpenApiTypes.STR,
    OpenApiParameter.HEADER,
    required=True,
    description='The `version` of the quota as you know it, in quotes; "0": there is none yet; `*`: any.',
)


class Whom(NamedTuple):
    """Whom a quota is for, as it is stored: None: not part of it; "": the default."""

    user: str | None
    client_id: str | None

    @classmethod
    def of(cls, said: dict[str, str]) -> "Whom":
        """By the parameters of an address. Raises Problem."""
        named = {}
        for name in ("user", "client_id"):
            text = said.get(name)
            if text is not None and (not text.isprintable() or not 1 <= len(text) <= NAME_LENGTH):
                raise Problem(400, f"`{name}` has 1 to {NAME_LENGTH} printable characters.")
            named[name] = DEFAULT if text == DEFAULT_WORD else text
        if named["user"] is None and named["client_id"] is None:
            raise Problem(400, "Say for whom: `user`, `client_id`, or both.", ErrorCode.INVALID_REQUEST)
        return cls(**named)

    def alteration(self, rates: dict[str, int | None]) -> AlterClientQuotas:
        """The wish that these rates hold; None: no bound."""
        parts = ((USER, self.user), (CLIENT_ID, self.client_id))
        entity = tuple((kind, name or None) for kind, name in parts if name is not None)
        operations = tuple(QuotaOperation(key, rate) for key, rate in rates.items())
        return AlterClientQuotas(alterations=(QuotaAlteration(entity, operations),))

    def row(self) -> ClientQuota | None:
        return ClientQuota.objects.filter(
            **({"user_name": self.user} if self.user is not None else {"user_name__isnull": True}),
            **({"client_id": self.client_id} if self.client_id is not None else {"client_id__isnull": True}),
        ).first()


@example(
    user="olga",
    client_id=DEFAULT_WORD,
    producer_byte_rate=10_485_760,
    consumer_byte_rate=None,
    version=88021,
    changed_at="2026-11-21T03:12:41Z",
)
class QuotaShape(serializers.Serializer[Any]):
    """What somebody may send and fetch, in bytes a second and broker; null: no bound.

    `user` or `client_id` null: not part of it; `<default>`: whoever has no quota of his own.
    """

    user = serializers.CharField(allow_null=True)
    client_id = serializers.CharField(allow_null=True)
    producer_byte_rate = Int64Field(allow_null=True)
    consumer_byte_rate = Int64Field(allow_null=True)
    version = Int64Field()
    changed_at = serializers.DateTimeField()


@example(producer_byte_rate=10_485_760, consumer_byte_rate=None, reason="its backfill starves the others")
class RatesShape(AskedShape):
    """Both rates as they are to be, in bytes a second and broker; null: no bound."""

    producer_byte_rate = Int64Field(min_value=1, max_value=LARGEST_RATE, allow_null=True)
    consumer_byte_rate = Int64Field(min_value=1, max_value=LARGEST_RATE, allow_null=True)

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        attrs = super().validate(attrs)
        if attrs[PRODUCER_BYTE_RATE] is None and attrs[CONSUMER_BYTE_RATE] is None:
            text = "A quota has a rate: DELETE takes it away."
            raise serializers.ValidationError({PRODUCER_BYTE_RATE: text})
        return attrs


class Quotas(RestView):
    """Quotas: viewers list them, operators set and take away that of a user and client id.

    A token that names bound is told of those that may hold for its own principal: others name others.
    """

    def get_permissions(self) -> list[BasePermission]:
        return [MayOperate() if self.request.method in ("PUT", "DELETE") else MayView()]

    @lists("List quotas of clients", QuotaShape)
    def get(self, request: Request, page: PageRequest) -> Response:
        rows = _known_to(caller_of(request)).order_by("id")
        if page.after:
            rows = rows.filter(id__gt=page.after[0])
        found = list(rows[: page.limit + 1])
        return page_response(request, page, found, lambda row: [row.pk], quota_shown)

    @extend_schema(
        operation_id="set_a_quota",
        summary="Set a quota",
        description="Who does not hear the controller's answer within 5 s gets 202 and the address where it"
        " will stand.",
        parameters=[_USER, _CLIENT, _IF_MATCH, IDEMPOTENCY_KEY],
        request=RatesShape,
        responses={200: ControllerRequestShape, 202: ControllerRequestShape},
    )
    def put(self, request: Request) -> Response:
        whom = Whom.of(query_of(request, ("user", "client_id")))
        shape = RatesShape(data=request.data)
        shape.is_valid(raise_exception=True)
        stated = shape.validated_data
        rates = {key: stated[key] for key in (PRODUCER_BYTE_RATE, CONSUMER_BYTE_RATE)}
        return _asked(request, whom, rates, stated["reason"])

    @extend_schema(
        operation_id="delete_a_quota",
        summary="Take a quota away",
        description="From then on the next wider quota holds, if there is one.",
        parameters=[_USER, _CLIENT, _IF_MATCH, IDEMPOTENCY_KEY, REASON],
        request=None,
        responses={200: ControllerRequestShape, 202: ControllerRequestShape},
    )
    def delete(self, request: Request) -> Response:
        said = query_of(request, ("user", "client_id", "reason"))
        rates: dict[str, int | None] = {PRODUCER_BYTE_RATE: None, CONSUMER_BYTE_RATE: None}
        return _asked(request, Whom.of(said), rates, reason_of(said))


def _known_to(caller: Caller) -> QuerySet[ClientQuota]:
    """All of them, or those of the principal itself, and those that name nobody."""
    rows = ClientQuota.objects.all()
    if caller.is_unbounded:
        return rows
    nobody = (Q(user_name=DEFAULT) | Q(user_name__isnull=True)) & (
        Q(client_id=DEFAULT) | Q(client_id__isnull=True)
    )
    return rows.filter(Q(user_name=caller.principal) | nobody)


def _asked(request: Request, whom: Whom, rates: dict[str, int | None], reason: str) -> Response:
    caller, key = caller_of(request), idempotency_key(request)
    require_whole_cluster(caller)
    expected = _expected(request)
    wish = whom.alteration(rates)
    if expected is not None:
        wish = AlterClientQuotas(alterations=wish.alterations, expected_version=expected)
    return told(ask(wish, caller, reason, key), current=lambda: _quota_now(whom))


def _expected(request: Request) -> int | None:
    """The version that If-Match names; None: any. Raises Problem."""
    said = tag_of(request, "the quota")
    if said is None:
        return None
    if not _VERSION.fullmatch(said):
        raise not_a_tag("the quota")
    return int(said)


def _quota_now(whom: Whom) -> tuple[dict[str, Any], str] | None:
    found = whom.row()
    return None if found is None else (quota_shown(found), str(found.version))


def quota_shown(row: ClientQuota) -> dict[str, Any]:
    """One quota as REST tells it."""
    return {
        "user": DEFAULT_WORD if row.user_name == DEFAULT else row.user_name,
        "client_id": DEFAULT_WORD if row.client_id == DEFAULT else row.client_id,
        "producer_byte_rate": row.producer_byte_rate,
        "consumer_byte_rate": row.consumer_byte_rate,
        "version": row.version,
        "changed_at": row.changed_at,
    }
