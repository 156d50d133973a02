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


def test_no_cell_of_a_stem_breaks_its_lines() -> None:
    """A name of 249 letters made a column of thirty lines, and the number beside it broke between digits."""
    named = re.compile(r'class="([^"]*\bnamed\b[^"]*)"')
    broken = [
        f"{path.name}: {classes}"
        for path in sorted((ROOT / "templates").rglob("*.html"))
        for classes in named.findall(path.read_text(encoding="utf-8"))
        if "wrap" in classes.split()
    ]
    assert broken == []
