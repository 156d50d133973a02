"""REST with everything an operator may write, good and bad, against a cluster that runs: never a 5xx of ours.

Schemathesis makes the requests from the OpenAPI document; what is refused says so as the document has it.
"""

from pathlib import Path
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis.checks import not_a_server_error
from schemathesis.core.result import Ok
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from tests.integration.replication.cluster import Cluster
from tests.integration.web.served import WebProcess

CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
]
EXAMPLES = 4
"""Of each kind, good and bad, for each operation; a hundred found nothing more."""


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_an_operators_writes(shared: Cluster, tmp_path: Path) -> None:
    shared.create_topic("orders", 3)
    web = WebProcess(tmp_path / "web.log", DATABASE_URL=shared.database_url)
    token = shared.token("schema", "operator")
    headers = {"Authorization": f"Bearer {token}"}
    schema = schemathesis.openapi.from_url(f"{web.url}/api/v1/schema/", headers=headers)
    problems: dict[tuple[str, int], str] = {}
    asked = 0

    def check(case: Any) -> None:
        nonlocal asked
        asked += 1
        if asked % 2 and "If-Match" in (case.headers or {}):
            # A tag by chance is never that of a row: half of the writes get past it.
            case.headers["If-Match"] = "*"
        response = case.call(base_url=web.url, headers=headers)
        try:
            case.validate_response(response, checks=CHECKS)
        except Exception as problem:
            problems[f"{case.method} {case.path}", response.status_code] = str(problem)[:2_000]

    bounded = settings(
        max_examples=EXAMPLES,
        deadline=None,
        derandomize=True,
        database=None,
        phases=[Phase.explicit, Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    try:
        for result in schema.get_all_operations():
            assert isinstance(result, Ok)
            operation = result.ok()
            for mode in schemathesis.GenerationMode:
                bounded(given(case=operation.as_strategy(generation_mode=mode))(check))()
    finally:
        web.stop()
    assert problems == {}
    assert asked > 150
