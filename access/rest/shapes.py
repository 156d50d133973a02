"""This room documents what all lists have in common, for the OpenAPI document."""

from collections.abc import Callable
from typing import Any, TypeVar

from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, OpenApiResponse, extend_schema, inline_serializer
from rest_framework import serializers

Method = TypeVar("Method", bound=Callable[..., Any])

CURSOR = OpenApiParameter("cursor", OpenApiTypes.STR, description="`next` of the page before.")
LIMIT = OpenApiParameter(
    "limit", {"type": "integer", "minimum": 1, "maximum": 500, "default": 100}, description="Rows of a page."
)
IF_NONE_MATCH = OpenApiParameter(
    "If-None-Match", OpenApiTypes.STR, OpenApiParameter.HEADER, description="ETags you have; 304 if current."
)


def text_filter(name: str, description: str, longest: int = 249) -> OpenApiParameter:
    """A filter by text of at most `longest` characters."""
    return OpenApiParameter(name, {"type": "string", "maxLength": longest}, description=description)


def word_filter(name: str, words: tuple[str, ...], description: str) -> OpenApiParameter:
    """A filter by one of some words."""
    return OpenApiParameter(name, {"type": "string", "enum": list(words)}, description=description)


def number_filter(name: str, description: str) -> OpenApiParameter:
    """A filter by a whole number of at most 31 bits."""
    schema = {"type": "integer", "minimum": 0, "maximum": 2**31 - 1}
    return OpenApiParameter(name, schema, description=description)


def list_schema(
    summary: str, item: type[serializers.Serializer[Any]], *filters: OpenApiParameter
) -> Callable[[Method], Method]:
    """Documents a list: `items`, `next`, the filters, the cursor."""
    page = inline_serializer(
        f"{item.__name__.removesuffix('Shape')}Page",
        {"items": item(many=True), "next": serializers.CharField(allow_null=True)},
    )
    parameters = [*filters, LIMIT, CURSOR]
    return extend_schema(
        operation_id=_operation(summary), summary=summary, parameters=parameters, responses={200: page}
    )


def detail_schema(summary: str, item: type[serializers.Serializer[Any]]) -> Callable[[Method], Method]:
    """Documents one resource with its ETag."""
    responses = {200: item, 304: OpenApiResponse(description="You have this version.")}
    return extend_schema(
        operation_id=_operation(summary), summary=summary, parameters=[IF_NONE_MATCH], responses=responses
    )


def _operation(summary: str) -> str:
    return summary.lower().replace(" ", "_")
