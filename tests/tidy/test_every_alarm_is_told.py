"""`docs/operations.md` says of each finding of the pages what it means and what to do."""

import re

from tests.tidy.sources import ROOT


def test_every_finding_stands_in_the_table() -> None:
    page = (ROOT / "docs" / "operations.md").read_text(encoding="utf-8")
    told = set(re.findall(r"^\| `(\w+)` \| .+ \| .+ \|$", page, re.MULTILINE))
    assert {path.stem for path in (ROOT / "templates" / "findings").glob("*.html")} <= told
