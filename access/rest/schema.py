"""This room adds to every operation of the OpenAPI document what all doors share: the refusals."""

from typing import Any

_REFUSALS = {
    "400": "A parameter does not fit.",
    "401": "No token, or one that is unknown, expired or taken back.",
    "403": "The role of the token may not do this.",
    "404": "There is no such thing.",
    "405": "This can only be read.",
    "429": "Too many requests; Retry-After says when to go on.",
    "503": "The database did not answer; Retry-After says when to ask again.",
}

_PROBLEM: dict[str, Any] = {
    "type": "object",
    "description": "A problem document (RFC 9457); `instance` is the request id that stands in the log.",
    "required": ["type", "title", "status", "detail", "instance"],
    "properties": {
        "type": {"type": "string"},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "detail": {"type": "string"},
        "instance": {"type": "string"},
        "kafka_error": {
            "type": "object",
            "required": ["code", "name", "retriable"],
            "properties": {
                "code": {"type": "integer"},
                "name": {"type": "string"},
                "retriable": {"type": "boolean"},
            },
        },
    },
}


def add_refusals(result: dict[str, Any], **hook: Any) -> dict[str, Any]:
    """A hook of drf-spectacular: each operation may answer each refusal, always in the same shape."""
    result["components"].setdefault("schemas", {})["Problem"] = _PROBLEM
    content = {"application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}}
    for path in result["paths"].values():
        for operation in path.values():
            for status, description in _REFUSALS.items():
                operation["responses"].setdefault(status, {"description": description, "content": content})
    return result
