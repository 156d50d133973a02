"""This room tests REST against its own OpenAPI document: Schemathesis makes requests, good and bad."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis.config._checks import NEGATIVE_DATA_REJECTION_EXPECTED_STATUSES as REJECTED
from schemathesis.core.result import Ok
from schemathesis.specs.openapi.checks import positive_data_acceptance

from access.grants import Role
from access.service import create_token
from tests.integration.rest.conftest import Caller
from tests.integration.web import cast
from tests.integration.web.served import WebProcess


@pytest.fixture
def served(fresh_database: str, tmp_path: Path) -> Iterator[tuple[str, str]]:
    """The address of a web process over one night, and a viewer's token."""
    cast.one_night(groups=5)
    token = create_token("viewer", Role.VIEWER)
    web = WebProcess(tmp_path / "web.log")
    yield web.url, token
    web.stop()


def test_the_document_names_every_resource_and_how_to_authenticate(viewer: Caller) -> None:
    document = viewer.get("schema/").json()
    assert document["openapi"].startswith("3.1")
    resources = {"brokers", "groups", "journal", "offsets", "partitions", "topics"}
    assert {path.split("/")[3] for path in document["paths"]} >= resources
    assert document["components"]["securitySchemes"]["token"] == {"type": "http", "scheme": "bearer"}
    for path in document["paths"].values():
        for operation in path.values():
            assert {"token": []} in operation["security"]
            assert "application/problem+json" in operation["responses"]["401"]["content"]


def test_the_document_says_what_a_change_needs_and_where_its_answer_leads(viewer: Caller) -> None:
    """A client that was made from it left the reason out of PATCH, and found no Location to follow."""
    document = viewer.get("schema/").json()
    shapes = document["components"]["schemas"]
    for address, path in document["paths"].items():
        for method, operation in path.items():
            if method == "get":
                continue
            for status in {"200", "201", "202"} & set(operation["responses"]):
                assert "Location" in operation["responses"][status]["headers"], (address, method, status)
            if "requestBody" not in operation:
                continue
            shape = operation["requestBody"]["content"]["application/json"]["schema"]
            for one in shapes[shape["$ref"].split("/")[-1]].get("oneOf", [shape]):
                stated = shapes[one["$ref"].split("/")[-1]]
                assert "reason" in stated["required"], (address, method)
                [example] = stated["examples"]
                assert set(stated["required"]) <= set(example) <= set(stated["properties"]), (address, method)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_every_answer_is_as_the_document_says(served: tuple[str, str]) -> None:
    url, token = served
    headers = {"Authorization": f"Bearer {token}"}
    schema = schemathesis.openapi.from_url(f"{url}/api/v1/schema/", headers=headers)
    # What Schemathesis calls bad data may also be far too much of it.
    schema.config.checks.negative_data_rejection.expected_statuses = [*REJECTED, "413"]
    asked = 0
    # A cursor is any text to the document, and only ours to the door.
    opaque = positive_data_acceptance

    def check(case: Any) -> None:
        nonlocal asked
        asked += 1
        case.call_and_validate(base_url=url, headers=headers, excluded_checks=[opaque])

    bounded = settings(
        max_examples=8,
        deadline=None,
        derandomize=True,
        database=None,
        phases=[Phase.explicit, Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    for result in schema.get_all_operations():
        assert isinstance(result, Ok)
        operation = result.ok()
        for mode in schemathesis.GenerationMode:
            strategy = operation.as_strategy(generation_mode=mode)
            bounded(given(case=strategy)(check))()
    assert asked > 80
