"""This room renders quotas of clients: who may send and fetch how much, and who is made to wait now."""

from dataclasses import dataclass

from django.db.models import Q
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from access.filters import text_filter
from access.grants import Operation
from access.pages import may, needs
from controller import conditions, fingerprints, standing
from controller.models import ClientQuota
from controller.paging import asked_of, window

QUOTAS_OF_A_PAGE = 100
WAITING_SHOWN = 50


@dataclass(frozen=True, slots=True)
class WaitingAt:
    """Whoever is made to wait, and by which broker."""

    broker_id: int
    row: conditions.ThrottledRow


@require_safe
@needs(Operation.VIEW)
def quota_list(request: HttpRequest) -> HttpResponse:
    """Quotas by user and client id; before them whom brokers make wait now."""
    here = standing.of(request)
    asked = asked_of(request, "/quotas/", text_filter("q", "User or client id contains."))
    contains = asked.get("q", "")
    rows = ClientQuota.objects.filter(Q(user_name__icontains=contains) | Q(client_id__icontains=contains))
    total = rows.count()
    pages = window(asked, QUOTAS_OF_A_PAGE, total, q=contains)
    waiting = [
        WaitingAt(row.broker.broker_id, one)
        for row in here.brokers
        if not row.broker.fenced
        for one in conditions.throttled(row.condition)
    ]
    waiting.sort(key=lambda one: -one.row.told.wait_ms)
    context = {
        "section": "cluster",
        "watch": fingerprints.CLUSTER,
        "rendered": here.fingerprint,
        "here": here,
        "rows": rows.order_by("user_name", "client_id")[pages.first : pages.last],
        "pages": pages,
        "contains": contains,
        "any": total > 0 or ClientQuota.objects.exists(),
        "waiting": waiting[:WAITING_SHOWN],
        "clients": len({(one.row.told.user, one.row.told.client_id) for one in waiting}),
        "more": max(0, len(waiting) - WAITING_SHOWN) + _unnamed(here),
        "may_operate": may(request, Operation.OPERATE),
    }
    return render(request, "controller/quotas.html", context)


def _unnamed(here: standing.ClusterStanding) -> int:
    """How many more wait than brokers have named."""
    told = (row.condition for row in here.brokers if not row.broker.fenced)
    return sum(one.throttled_more for one in told if one is not None and one.throttled)
