"""A part of a page that is read anew is found by its `id`; without one it stands still and nobody is told."""

import re

from tests.tidy.sources import ROOT, shown, tracked_files


def test_every_part_has_an_id_of_its_own() -> None:
    nameless, twice = [], []
    for path in tracked_files():
        if path.suffix != ".html" or path.relative_to(ROOT).parts[0] != "templates":
            continue
        parts = re.findall(r"<\w+[^>]*\bdata-part\b[^>]*>", path.read_text(encoding="utf-8"))
        names = [re.search(r'\bid="([\w-]+)"', part) for part in parts]
        nameless += [shown(path) for name in names if name is None]
        known = [name[1] for name in names if name is not None]
        twice += [f"{shown(path)}: {name}" for name in set(known) if known.count(name) > 1]
    assert nameless == [] and twice == []
