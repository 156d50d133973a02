"""The OpenAPI document under docs/ is the one of the code: who reads a diff sees what REST changes."""

import json
from typing import Any

from drf_spectacular.generators import SchemaGenerator
from drf_spectacular.renderers import OpenApiJsonRenderer

from tests.tidy.sources import ROOT

KEPT = ROOT / "docs" / "openapi.json"


def _made() -> dict[str, object]:
    generator: Any = SchemaGenerator
    rendered = OpenApiJsonRenderer().render(generator().get_schema(request=None, public=True))
    found: dict[str, object] = json.loads(rendered)
    return found


def test_the_document_is_the_one_of_the_code() -> None:
    made = _made()
    assert json.loads(KEPT.read_text(encoding="utf-8")) == made, "Write it anew: make docs"


def test_operations_have_names_that_every_language_takes() -> None:
    paths: dict[str, dict[str, dict[str, str]]] = _made()["paths"]  # type: ignore[assignment]
    names = [operation["operationId"] for path in paths.values() for operation in path.values()]
    assert len(set(names)) == len(names)
    assert all(name.isidentifier() for name in names)
