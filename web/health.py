"""This room answers whether the web process can serve, and what it counted; web.doors says that it lives."""

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
from access.rest.problems import problem_response
from access.service import user_may
from muster.kernel.error_codes import ErrorCode

_migrated = False


@login_not_required
@never_cache
@require_safe
def readyz(request: HttpRequest) -> HttpResponse:
    """200 if the database answers and knows every migration, else 503 with the reason in one line."""
    try:
        reason = _missing()
    except DatabaseError:
        reason = "the database does not answer"
    return HttpResponse(f"{reason or 'ready'}\n", status=503 if reason else 200, content_type="text/plain")


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


def _missing() -> str:
    global _migrated
    if _migrated:
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1")
        return ""
    executor = MigrationExecutor(connection)
    if executor.migration_plan(executor.loader.graph.leaf_nodes()):
        return "migrations are missing: manage.py migrate"
    _migrated = True
    return ""
