"""This room names every address of REST, room by room; an unknown one is a problem document, too."""

from django.urls import include, path, re_path
from drf_spectacular.views import SpectacularJSONAPIView

from access.rest.addresses import both
from access.rest.views import RestView
from web.errors import nothing_here
from web.findings_api import Findings
from web.journal_api import Journal


class Schema(RestView, SpectacularJSONAPIView):
    """The document of all of them."""


urlpatterns = [
    path("schema/", Schema.as_view(), name="schema"),
    path("schema", Schema.as_view()),
    path("", include("groups.api_urls")),
    path("", include("controller.api_urls")),
    *both("findings", Findings.as_view(), "api-findings"),
    *both("journal", Journal.as_view(), "api-journal"),
    re_path(r"^[\s\S]*$", nothing_here),
]
