"""Each example of `docs/sdk.md` runs as it stands there, until its application has seen every record."""

import ast
import asyncio
import inspect
import re
from pathlib import Path
from typing import Any

import pytest

from muster import Record
from tests.tidy.sources import ROOT
from tests.unit.client.stage import places, staged

PAGE = (ROOT / "docs" / "sdk.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"^```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
RECORDS = 5


class EnoughError(Exception):
    """The application has seen everything, and its example need not go on."""


class Application:
    """What the page calls `handle`."""

    def __init__(self) -> None:
        self.seen: set[tuple[int, int]] = set()

    def handle(self, record: Record) -> None:
        self.seen.add((record.partition, record.offset))
        if len(self.seen) == 2 * RECORDS:
            raise EnoughError


def test_the_page_has_examples() -> None:
    assert len(EXAMPLES) >= 7


@pytest.mark.parametrize("example", EXAMPLES, ids=[str(number) for number in range(len(EXAMPLES))])
async def test_an_example_runs(
    example: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    async with staged(tmp_path, {"flights": 2}) as stage:
        await stage.fill(RECORDS, partitions=2, topic="flights")
        stage.coordinator.shares = [places(0, 1, topic="flights")]
        # The page's consumers begin where the group has committed.
        stage.coordinator.committed = dict.fromkeys(places(0, 1, topic="flights"), 0)
        application = Application()
        names: dict[str, Any] = {
            "nodes": [stage.coordinator.address],
            "token": "mst_",
            "handle": application.handle,
        }
        code = compile(example, "docs/sdk.md", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
        with pytest.raises(EnoughError):
            async with asyncio.timeout(20):
                if code.co_flags & inspect.CO_COROUTINE:
                    await eval(code, names)
                else:
                    await asyncio.to_thread(eval, code, names)
    assert len(application.seen) == 2 * RECORDS
