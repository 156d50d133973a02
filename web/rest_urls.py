"""This room names every address of REST, room by room; an unknown one is a problem document, too."""

from django.contrib.auth.decorators import login_not_required
from django.http import HttpRequest, JsonResponse
from django.urls import include, path, re_path
from drf_spectacular.views import SpectacularJSONAPIView

from access.rest.addresses import both
from access.rest.problems import problem_response
from web.journal_api import Journal


@login_not_required
def nothing_here(request: HttpRequest) -> JsonResponse:
    """404 without saying what exists."""
    return problem_response(request, 404, "There is nothing at this address.")


urlpatterns = [
    path("schema/", SpectacularJSONAPIView.as_view(), name="schema"),
    path("schema", SpectacularJSONAPIView.as_view()),
    path("", include("groups.api_urls")),
    path("", include("controller.api_urls")),
    *both("journal", Journal.as_view(), "api-journal"),
    re_path("^.*$", nothing_here),
]
