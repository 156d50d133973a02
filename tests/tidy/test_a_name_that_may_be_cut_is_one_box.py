"""A name in a table is cut at its stem, never broken: stem and number stand in one link or one span."""

import re

from tests.tidy.sources import ROOT

STEM = re.compile(r'(.{0,400})<span class="stem">', re.DOTALL)
BOX = re.compile(r"<(?:a\b[^>]*|span)>$")


def test_every_stem_stands_in_a_box() -> None:
    bare = [
        f"{path.name}: {before[-60:]}"
        for path in sorted((ROOT / "templates").rglob("*.html"))
        for before in STEM.findall(path.read_text(encoding="utf-8"))
        if not BOX.search(before)
    ]
    assert bare == []
