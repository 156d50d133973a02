"""What a walk beside Kafka excuses is a row of docs/deviations.md."""

import pytest

from tests.beside_kafka.known_of_admin import KNOWN_OF_ADMIN
from tests.beside_kafka.known_of_logs import KNOWN_OF_LOGS
from tests.tidy.sources import ROOT

ROWS = (ROOT / "docs/deviations.md").read_text("utf-8").splitlines()


@pytest.mark.parametrize("row", sorted({known.row for known in (*KNOWN_OF_ADMIN, *KNOWN_OF_LOGS)}))
def test_there_is_one_row_for_it(row: str) -> None:
    assert sum(line.startswith(f"| {row}") for line in ROWS) == 1
