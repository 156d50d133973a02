"""This room adds to the OpenAPI document what all doors share: refusals, headers, examples."""

from typing import Any

from access.rest.shapes import EXAMPLES

_REFUSALS = {
    "400": "A parameter does not fit.",
    "401": "No token, or one that is unknown, expired or taken back.",
    "403": "The role of the token may not do this.",
    "404": "There is no such thing.",
    "405": "This is not done here; Allow says what is.",
    "429": "Too many requests; Retry-After says when to go on.",
    "503": "The database did not answer; Retry-After says when to ask again.",
}

_REFUSALS_OF_WRITES = {
    "408": "It did not come whole within ten seconds; nothing was changed.",
    "409": "The present state does not allow it; nothing was changed.",
    "412": "If-Match names another version; `current` is the row as it is now, and ETag its version.",
    "413": "It has more than 1 MiB; nothing was changed.",
    "415": "Content-Type is not application/json; nothing was changed.",
    "422": "The Idempotency-Key was given to another request.",
    "428": "If-Match is missing.",
    "500": "Whoever decides it failed by a mistake of ours, which the log names.",
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


_TEXT = {"type": "string"}
_SECONDS = {"type": "integer", "format": "int32", "minimum": 1}
_ALWAYS = {"X-Request-Id": {"description": "Stands in the log, too.", "schema": _TEXT}}
_ETAG = {"ETag": {"description": "Made from versions; send it back in If-None-Match.", "schema": _TEXT}}
_ASKED = {
    "Location": {"description": "What was made, or the request and what became of it.", "schema": _TEXT}
}
_NEXT = {"ETag": {"description": "Of what was made or changed, for the next If-Match.", "schema": _TEXT}}
_LINK = {"Link": {"description": 'The next page, `rel="next"`; absent on the last.', "schema": _TEXT}}
_OF_STATUS: dict[str, dict[str, Any]] = {
    "202": {"Location": {"description": "Where the answer will stand.", "schema": _TEXT}},
    "412": _ETAG,
    "304": _ETAG,
    "401": {"WWW-Authenticate": {"description": "How a token is sent.", "schema": _TEXT}},
    "405": {"Allow": {"description": "What is answered here.", "schema": _TEXT}},
    "429": {"Retry-After": {"description": "Seconds.", "schema": _SECONDS}},
    "503": {"Retry-After": {"description": "Seconds.", "schema": _SECONDS}},
}


def add_what_all_share(result: dict[str, Any], **hook: Any) -> dict[str, Any]:
    """A hook of drf-spectacular: refusals in one shape, the headers of answers, an example of each shape."""
    result["components"].setdefault("schemas", {})["Problem"] = _PROBLEM
    content = {"application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}}
    for path in result["paths"].values():
        for method, operation in path.items():
            answers = operation["responses"]
            names = [parameter["name"] for parameter in operation.get("parameters", [])]
            refusals = _REFUSALS if method == "get" else _REFUSALS | _REFUSALS_OF_WRITES
            never = {"415"} if "requestBody" not in operation else set()
            never |= {"428"} if "If-Match" not in names else set()
            for status, description in refusals.items():
                if status not in never:
                    answers.setdefault(status, {"description": description, "content": content})
            for status, answer in answers.items():
                answer["headers"] = {**_ALWAYS, **_OF_STATUS.get(status, {})}
            answers["200"]["headers"] |= _ETAG if "304" in answers else {}
            if method != "get":
                for status in {"200", "201"} & set(answers):
                    answers[status]["headers"] |= _ASKED | (_NEXT if status == "201" else {})
            answers["200"]["headers"] |= _LINK if "cursor" in names else {}
    shapes = result["components"]["schemas"]
    for name, example in EXAMPLES.items():
        # What is sent has a name of its own there.
        for called in {name, f"{name}Request"} & shapes.keys():
            shapes[called]["examples"] = [example]
    return result
