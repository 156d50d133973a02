"""This room answers JSON whatever the Accept header wishes: an error must stay readable to every client."""

from collections.abc import Iterable
from typing import Any

from rest_framework.negotiation import BaseContentNegotiation
from rest_framework.request import Request


class AlwaysJson(BaseContentNegotiation):
    """Takes the view's first renderer and parser."""

    def select_parser(self, request: Request, parsers: Iterable[Any]) -> Any:
        media = (request.content_type or "").partition(";")[0].strip().lower()
        return next((parser for parser in parsers if parser.media_type == media), None)

    def select_renderer(
        self, request: Request, renderers: Iterable[Any], format_suffix: str | None = None
    ) -> tuple[Any, str]:
        first = next(iter(renderers))
        return first, first.media_type
