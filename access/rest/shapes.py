"""This room gives lists and details of REST their frame, and the OpenAPI document the same words."""

import re
from collections.abc import Callable, Iterable, Mapping
from functools import cache, wraps
from typing import Any, TypeVar

from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import (
    OpenApiParameter,
    OpenApiResponse,
    extend_schema,
    extend_schema_field,
    inline_serializer,
)
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from access.filters import Filter
from access.rest.paging import DEFAULT_LIMIT, LARGEST_LIMIT, PageRequest, page_request
from access.rest.views import query_of

CURSOR = OpenApiParameter("cursor", OpenApiTypes.STR, description="`next` of the page before.")
LIMIT = OpenApiParameter(
    "limit",
    {"type": "integer", "format": "int32", "minimum": 1, "maximum": LARGEST_LIMIT, "default": DEFAULT_LIMIT},
    description="Rows of a page.",
)
IF_NONE_MATCH = OpenApiParameter(
    "If-None-Match", OpenApiTypes.STR, OpenApiParameter.HEADER, description="ETags you have; 304 if current."
)
EXAMPLES: dict[str, dict[str, Any]] = {}
"""One example of each shape, by its name; the OpenAPI document shows them."""

Shape = TypeVar("Shape", bound=type[serializers.Serializer[Any]])


def example(**values: Any) -> Callable[[Shape], Shape]:
    """Gives the shape an example."""

    def keep(shape: Shape) -> Shape:
        EXAMPLES[shape.__name__] = values
        return shape

    return keep


ListOf = Callable[..., Response]
"""A view's `get(self, request, page, **of the address)`."""


@extend_schema_field({"type": "integer", "format": "int64"})
class Int64Field(serializers.IntegerField):
    """An offset, a generation, a version: more than 31 bits."""


@extend_schema_field({"type": "integer", "format": "int32"})
class Int32Field(serializers.IntegerField):
    """A partition, a broker's id, a number of something."""


class WordField(serializers.ChoiceField):
    """One of a few words that somebody states; whoever states another one is told all of them."""

    def __init__(self, words: Iterable[str], **more: Any) -> None:
        super().__init__([(word, word) for word in words], **more)
        self.error_messages["invalid_choice"] = f"It must be one of {', '.join(self.choices)}."


class StatedShape(serializers.Serializer[Any]):
    """What somebody states: a field that nobody knows is a mistake, told with whatever else is wrong."""

    def to_internal_value(self, data: Any) -> Any:
        """What the fields say. Raises ValidationError."""
        unknown = sorted(set(data) - set(self.fields)) if isinstance(data, Mapping) else []
        errors: dict[str, Any] = {str(name)[:60]: ["There is no such field."] for name in unknown}
        try:
            read = super().to_internal_value(data)
        except serializers.ValidationError as error:
            if not isinstance(error.detail, dict):
                raise
            raise serializers.ValidationError({**error.detail, **errors}) from error
        if errors:
            raise serializers.ValidationError(errors)
        return read


@cache
def _page_of(item: type[serializers.Serializer[Any]]) -> Any:
    """The shape of a page; two lists of the same rows share one."""
    return inline_serializer(
        f"{item.__name__.removesuffix('Shape')}Page",
        {"items": item(many=True), "next": serializers.CharField(allow_null=True)},
    )


def lists(
    summary: str, item: type[serializers.Serializer[Any]], *filters: Filter
) -> Callable[[ListOf], Callable[..., Response]]:
    """Makes a GET a list of `item`: the address is read by the filters, and documented by them."""
    page = _page_of(item)
    parameters = [
        OpenApiParameter(one.name, dict(one.schema), description=one.description) for one in filters
    ]

    def wrap(get: ListOf) -> Callable[..., Response]:
        @extend_schema(
            operation_id=operation_id(summary),
            summary=summary,
            parameters=[*parameters, LIMIT, CURSOR],
            responses={200: page},
        )
        @wraps(get)
        def listed(self: Any, request: Request, **of: Any) -> Response:
            asked: PageRequest = page_request(request, filters)
            return get(self, request, asked, **of)

        return listed

    return wrap


def detail_schema(summary: str, item: type[serializers.Serializer[Any]]) -> Callable[[ListOf], ListOf]:
    """Documents one resource with its ETag, whose address has no parameters."""
    responses = {200: item, 304: OpenApiResponse(description="You have this version.")}

    def wrap(get: ListOf) -> ListOf:
        @extend_schema(
            operation_id=operation_id(summary),
            summary=summary,
            parameters=[IF_NONE_MATCH],
            responses=responses,
        )
        @wraps(get)
        def read(self: Any, request: Request, **of: Any) -> Response:
            query_of(request)
            return get(self, request, **of)

        return read

    return wrap


def operation_id(summary: str) -> str:
    """`list_rebalances_of_a_group`: a name that every language takes for a function."""
    return re.sub(r"\W+", "_", summary.lower()).strip("_")
