"""No symbolic link is tracked: it names a place of one machine, and a merge puts it where a folder stands."""

import subprocess

from tests.tidy.sources import ROOT

LINK = "120000"
"""Git's mode of a symbolic link."""


def test_no_link_is_tracked() -> None:
    listed = subprocess.run(
        ["git", "ls-files", "--stage"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.splitlines()
    assert listed, "the index is empty: this is no working tree"
    assert [line for line in listed if line.startswith(LINK)] == []
