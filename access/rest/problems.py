"""This room writes each refusal of REST as a problem document (RFC 9457), with Kafka's error if one fits."""

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

import structlog
from django.core.exceptions import PermissionDenied
from django.db import DatabaseError, DataError, InterfaceError, OperationalError, ProgrammingError
from django.http import Http404, HttpRequest, JsonResponse
from rest_framework import exceptions
from rest_framework.response import Response

from muster.kernel.error_codes import ErrorCode
from runtime.ports import is_unable_behind

log = structlog.get_logger(__name__)

MEDIA_TYPE = "application/problem+json"
RETRY_AFTER_S = "2"
"""Of whatever did not answer now, and will soon; a header's value."""

FIRST_OF_OURS = 1_000
"""Errors from here on are Muster's own: a document does not call them Kafka's."""

SILENT_DATABASE = (
    "The database did not answer. Until it does no offset is committed, no group rebalances and no leader is"
    " elected; reading and writing go on where they are."
)
CANNOT_WRITE = (
    "The database writes nothing now: it has no room, or it only reads. Until it does no offset is committed,"
    " no group rebalances and no leader is elected; reading and writing go on where they are."
)
NO_CONNECTION_LEFT = (
    "PostgreSQL has no connection left for the pages: raise its max_connections, or what a PgBouncer before"
    " it lets in, or end who holds them."
    " Nodes keep theirs; one that loses a connection now commits, rebalances and elects no more until it has"
    " another."
)
TOOK_TOO_LONG = (
    "The database took too long: somebody holds rows or tables of it, or too much is asked of it at once."
    " Groups and brokers go on, but for what they need of the same."
)
OTHER_SCHEMA = (
    "The database has the schema of another version of Muster: run manage.py migrate, or start the version"
    " that the schema is of. Groups and brokers go on."
)
_UNKNOWN_TABLE_OR_COLUMN = ("42P01", "42703")
_SILENT = (OperationalError, InterfaceError)
"""What it looks like when the database does not answer."""
_TOO_MANY = (
    *("too many clients", "too many connections", "connection slots are reserved"),
    *("no more connections allowed", "client connections exceeded"),
    "query_wait_timeout",
)
"""How PostgreSQL, in English, refuses one connection more, and PgBouncer; else it counts as silent.

The last is PgBouncer's, too, which let somebody in and had no connection for him in time. Libpq tells no
SQLSTATE of what failed to connect.
"""
_ENDED = ("57014", "55P03")
"""A statement took longer than it may, or waited for a lock longer than it may."""


class Problem(exceptions.APIException):
    """A refusal with its HTTP status, one sentence for people, and Kafka's error code if there is one."""

    def __init__(self, status: int, detail: str, error: ErrorCode | None = None, **more: Any) -> None:
        super().__init__(detail)
        self.status_code = status
        self.error = error
        self.more = more
        self.headers: Mapping[str, str] = {}


def why_unanswered(exception: BaseException | None) -> str:
    """What to say of a database that is not well; empty for any other error: that is a mistake of ours."""
    if not isinstance(exception, DatabaseError | InterfaceError):
        return ""
    if is_unable_behind(exception):
        return CANNOT_WRITE
    if getattr(exception.__cause__, "sqlstate", None) in _ENDED:
        return TOOK_TOO_LONG
    if not isinstance(exception, _SILENT):
        return ""
    return NO_CONNECTION_LEFT if has_no_connection_left(exception) else SILENT_DATABASE


def has_no_connection_left(exception: BaseException) -> bool:
    """Whether PostgreSQL, or a PgBouncer before it, answers, and refuses one connection more."""
    return any(words in str(exception) for words in _TOO_MANY)


def is_of_another_schema(exception: BaseException | None) -> bool:
    """Whether PostgreSQL does not know a table or a column: migrations were not run, or later ones were."""
    cause = getattr(exception, "__cause__", None)
    return (
        isinstance(exception, ProgrammingError)
        and getattr(cause, "sqlstate", None) in _UNKNOWN_TABLE_OR_COLUMN
    )


def document(
    status: int, detail: str, request_id: str, error: ErrorCode | None = None, **more: Any
) -> dict[str, Any]:
    """The problem document of one refusal; `instance` is the request id that stands in the log, too."""
    body: dict[str, Any] = {
        "type": "about:blank",
        "title": HTTPStatus(status).phrase,
        "status": status,
        "detail": detail,
        "instance": f"urn:request:{request_id}",
    }
    if error is not None and error < FIRST_OF_OURS:
        body["kafka_error"] = {"code": int(error), "name": error.name, "retriable": error.retriable}
    body.update(more)
    return body


def answer(exception: Exception, context: dict[str, Any]) -> Response | None:
    """DRF's exception handler: every refusal gets one shape; an unknown error is logged, never shown."""
    request = context["request"]
    refusal = _as_refusal(exception)
    if refusal is None:
        return None
    error = _kafka_error(refusal)
    more = dict(getattr(refusal, "more", {}))
    detail = str(refusal.detail)
    if isinstance(refusal, exceptions.ValidationError):
        more["errors"] = refusal.detail
        detail = "The request has parts that do not fit."
    response = Response(
        document(refusal.status_code, detail, _request_id(request), error, **more),
        status=refusal.status_code,
    )
    response.content_type = MEDIA_TYPE
    for name, value in getattr(refusal, "headers", {}).items():
        response[name] = value
    if getattr(refusal, "auth_header", None):
        response["WWW-Authenticate"] = refusal.auth_header  # type: ignore[attr-defined]
    wait_s = getattr(refusal, "wait", None)
    if wait_s is not None:
        response["Retry-After"] = str(int(wait_s) + 1)
    if why_unanswered(exception):
        response["Retry-After"] = RETRY_AFTER_S
        # Nobody is shown it, and Django logs of an answer that a door made itself only that it was 503.
        log.warning("database could not be asked", path=request.path, error=str(exception).strip())
    return response


def _as_refusal(exception: Exception) -> exceptions.APIException | None:
    if isinstance(exception, exceptions.MethodNotAllowed):
        return Problem(405, "This is not done here; Allow says what is.")
    if isinstance(exception, exceptions.UnsupportedMediaType):
        return Problem(415, "The body is to be JSON: send it with Content-Type: application/json.")
    if isinstance(exception, exceptions.APIException):
        return exception
    if isinstance(exception, Http404):
        return Problem(404, "There is nothing at this address.")
    if isinstance(exception, PermissionDenied):
        text = "The role of this token does not allow it."
        return Problem(403, text, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    if isinstance(exception, DataError):
        text = "The address holds something that no row can hold."
        return Problem(400, text, ErrorCode.INVALID_REQUEST)
    if words := why_unanswered(exception):
        return Problem(503, f"{words} Ask again.")
    if is_of_another_schema(exception):
        return Problem(503, OTHER_SCHEMA)
    return None


def _kafka_error(refusal: exceptions.APIException) -> ErrorCode | None:
    if isinstance(refusal, Problem):
        return refusal.error
    if isinstance(refusal, exceptions.AuthenticationFailed | exceptions.NotAuthenticated):
        return ErrorCode.SASL_AUTHENTICATION_FAILED
    if isinstance(refusal, exceptions.PermissionDenied):
        return ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    return None


def _request_id(request: Any) -> str:
    inner: HttpRequest = getattr(request, "_request", request)
    return str(getattr(inner, "request_id", "unknown"))


def problem_response(
    request: HttpRequest, status: int, detail: str, error: ErrorCode | None = None
) -> JsonResponse:
    """A problem document outside DRF: unknown address, error page of an API path."""
    return JsonResponse(
        document(status, detail, _request_id(request), error), status=status, content_type=MEDIA_TYPE
    )
