"""Fixtures of the SDK's tests: a broker of the test's own."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.sdk.brokers import LoneBroker


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[LoneBroker]:
    """A running broker with `orders` (3 partitions) and `clicks` (1)."""
    lone = LoneBroker(tmp_path, orders=3, clicks=1)
    lone.start()
    yield lone
    lone.stop()
