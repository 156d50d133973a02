"""This room answers whether the web process can serve, and what it counted; web.doors says that it lives."""

import structlog
from django.contrib.auth.decorators import login_not_required
from django.db import DatabaseError, connection
from django.db.migrations.executor import MigrationExecutor
from django.http import HttpRequest, HttpResponse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from rest_framework.exceptions import AuthenticationFailed, Throttled

from access.grants import Operation
from access.rest.authentication import prove
from access.rest.problems import has_no_connection_left, problem_response
from access.service import user_may
from muster.kernel.error_codes import ErrorCode
from runtime.schema import why_unknown

log = structlog.get_logger(__name__)
_migrated = False
_said = ""


@login_not_required
@never_cache
@require_safe
def readyz(request: HttpRequest) -> HttpResponse:
    """200 if the database answers and has the schema of this program, else 503 with the reason in one line.

    Where it had it, and somebody brought a newer one, 200 with a word: else no page would be served from
    `manage.py migrate` until the first web process of the newer version.
    """
    try:
        ready, said = _looked_at()
    except DatabaseError as error:
        crowded = has_no_connection_left(error)
        ready, said = (
            False,
            "the database has no connection left" if crowded else "the database does not answer",
        )
    return HttpResponse(f"{said}\n", status=200 if ready else 503, content_type="text/plain")


@login_not_required
@never_cache
@require_safe
def metrics(request: HttpRequest) -> HttpResponse:
    """Prometheus's text, for a token or a session that may view."""
    try:
        caller = prove(request)
    except AuthenticationFailed:
        caller = None
    except Throttled as bound:
        refusal = problem_response(request, 429, str(bound.detail))
        refusal["Retry-After"] = str(int(getattr(bound, "wait", 0)) + 1)
        return refusal
    allowed = caller.may(Operation.VIEW) if caller else user_may(request.user, Operation.VIEW)
    if not allowed:
        if caller:
            text = f"The role {caller.role.value} may not view. An administrator gives roles."
            return problem_response(request, 403, text, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
        text = "Metrics need a token that may view."
        refusal = problem_response(request, 401, text, ErrorCode.SASL_AUTHENTICATION_FAILED)
        refusal["WWW-Authenticate"] = 'Bearer realm="muster"'
        return refusal
    return HttpResponse(generate_latest(), content_type=CONTENT_TYPE_LATEST)


def _looked_at() -> tuple[bool, str]:
    global _migrated, _said
    unknown = why_unknown(connection)
    if unknown and unknown != _said:
        log.warning("the schema is newer", why=unknown)
    _said = unknown
    if _migrated:
        return True, f"ready. {unknown}" if unknown else "ready"
    if unknown:
        return False, unknown
    executor = MigrationExecutor(connection)
    if executor.migration_plan(executor.loader.graph.leaf_nodes()):
        return False, "migrations are missing: manage.py migrate"
    _migrated = True
    return True, "ready"
