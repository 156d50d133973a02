"""This room answers a resource with its version as ETag, and 304 to whoever has that version already."""

import re
from typing import Any

from rest_framework.request import Request
from rest_framework.response import Response

_TAG = re.compile(r'(?:W/)?"[\x21\x23-\x7e]*"')


def versioned(request: Request, body: dict[str, Any], tag: str) -> Response:
    """The resource with `ETag: "<tag>"`; 304 without a body if If-None-Match names the tag or is `*`.

    The tag is made from versions, never from the body: a hash of the content cannot tell A, B, A from A.
    """
    etag = f'"{tag}"'
    header = request.META.get("HTTP_IF_NONE_MATCH", "")
    named = {found.removeprefix("W/") for found in _TAG.findall(header)}
    has_it = header.strip() == "*" or etag in named
    response = Response(status=304) if has_it else Response(body)
    response["ETag"] = etag
    response["Cache-Control"] = "private, no-cache"
    return response
