"""This room answers what went wrong: a page for people, a problem document under /api/."""

import sys
from collections.abc import Callable
from typing import Any, Final

from django.contrib.auth.decorators import login_not_required
from django.core.exceptions import BadRequest
from django.db import DataError
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import render
from django.views.decorators.csrf import csrf_exempt

from access.rest.problems import (
    OTHER_SCHEMA,
    RETRY_AFTER_S,
    SILENT_DATABASE,
    is_of_another_schema,
    problem_response,
    why_unanswered,
)
from access.typed import typed_into
from access.views import at_an_old_page
from web import silence
from web.doors import READ, is_rest
from web.themes import theme_in
from web.unanswered import KEY, Fields, fields_of, page_of

_OF_SEVERAL_PARTS: Final = "multipart/form-data"


def _answer(request: HttpRequest, status: int, title: str, means: str, todo: str) -> HttpResponse:
    if is_rest(request.path):
        return problem_response(request, status, f"{title}. {means}")
    words: dict[str, Any] = {"title": title, "means": means, "todo": todo}
    words["request_id"] = getattr(request, "request_id", "")
    words |= {"again": status >= 500, "asks": status == 503, "since": silence.since(means)}
    words["typed"] = _typed(request)
    return render(request, "error.html", words, status=status)


def _typed(request: HttpRequest) -> Fields:
    """What a form of ours held that cannot be sent any more, so that it is not lost: its topic was deleted.

    What another site sends is not shown as if it had been typed here.
    """
    is_ours = request.method not in READ and getattr(request, "csrf_processing_done", False)
    return [one for one in typed_into(request.POST) if one[1]] if is_ours and request.POST.get(KEY) else []


def _unanswered(request: HttpRequest, status: int, means: str, todo: str) -> HttpResponse:
    """Of a page nothing is lost; a form may have been taken: it is shown, to be sent again."""
    if request.method in READ or is_rest(request.path):
        return _answer(request, status, "The page could not be read", means, todo)
    fields, request_id = fields_of(request.POST), getattr(request, "request_id", "")
    theme = theme_in(request.COOKIES)
    page = page_of(fields, request.path, means=means, request_id=request_id, theme=theme, asks=status == 503)
    return HttpResponse(page, status=status)


class SayWhatIsNotAllowed:
    """Gives the framework's empty 405 the words that every refusal has; takes no form in odd letters."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self._get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        # The framework takes whatever Python knows for letters: `base64` failed it, with a traceback logged.
        if request.content_type == _OF_SEVERAL_PARTS and (request.encoding or "utf-8").lower() != "utf-8":
            return bad_request(request, BadRequest("A form comes in UTF-8. Nothing was changed."))
        answer = self._get_response(request)
        if answer.status_code != 405 or getattr(answer, "content", None):
            return answer
        means = f"{request.method} is not answered here. Nothing was changed."
        said = _answer(request, 405, "This cannot be done here", means, "Go back, or begin at the overview.")
        said["Allow"] = answer.get("Allow", "")
        return said


@csrf_exempt  # or whoever writes to a wrong address is told of a form that was refused
@login_not_required
def nothing_here(request: HttpRequest) -> HttpResponse:
    """404 without saying what exists."""
    means = "There is nothing at this address: /api/v1/schema/ says what is. An id is a UUID, written whole."
    return problem_response(request, 404, means)


@login_not_required
def bad_request(request: HttpRequest, exception: Exception) -> HttpResponse:
    """400: the address or the form does not fit; what a view says about it is shown."""
    means = str(exception) if isinstance(exception, BadRequest) else "Nothing was changed."
    return _answer(request, 400, "The request does not fit", means, "Go back, or begin at the overview.")


@login_not_required
def forbidden(request: HttpRequest, exception: Exception) -> HttpResponse:
    """403: signed in, but the role does not include it."""
    title, means = "You may not see this", str(exception) or "Your role does not include this page."
    if request.method not in READ:
        title, means = "You may not do this", f"{means} Nothing was changed."
    return _answer(request, 403, title, means, "An administrator gives roles.")


@login_not_required
def csrf_refused(request: HttpRequest, reason: str = "") -> HttpResponse:
    """403: a form came without the secret of this browser's session."""
    if (kept := at_an_old_page(request, reason)) is not None:
        return kept
    means = "The form is old, or it came from another site. Nothing was changed."
    return _answer(request, 403, "The form was refused", means, "Open the page again and send it once more.")


@login_not_required
def not_found(request: HttpRequest, exception: Exception) -> HttpResponse:
    """404: no such page, group or topic."""
    means = "It may have been deleted, or the address has a slip."
    if request.method not in READ:
        means = f"{means} Nothing was changed."
    return _answer(request, 404, "There is nothing at this address", means, "Look in the lists.")


@login_not_required
def server_error(request: HttpRequest) -> HttpResponse:
    """500: our own mistake; nothing of it is shown but the request id. 503 if the database is not well.

    Django calls it while the exception is being handled, wherever that was: view, session or middleware.
    """
    exception = sys.exc_info()[1]
    if means := why_unanswered(exception):
        if means == SILENT_DATABASE:
            silence.noticed()
        answer = _unanswered(request, 503, means, "Try again in a few seconds.")
        answer["Retry-After"] = RETRY_AFTER_S
        return answer
    if is_of_another_schema(exception):
        todo = "/readyz says what is missing."
        # Of a form what there is to do is to send it again, when that has been looked at.
        means = OTHER_SCHEMA if request.method in READ else f"{OTHER_SCHEMA} {todo}"
        return _unanswered(request, 503, means, todo)
    if isinstance(exception, DataError):
        # What PostgreSQL cannot store or compare, such as a zero byte in an address of the admin.
        return bad_request(request, exception)
    means = "It failed on our side. Groups and brokers go on. The log of web says why."
    return _unanswered(request, 500, means, "Try again.")
