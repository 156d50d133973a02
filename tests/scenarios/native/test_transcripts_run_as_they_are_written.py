"""This room compares every transcript with what the cores say and record now."""

from pathlib import Path

import pytest

from tests.scenarios.native.transcripts import played, transcripts


@pytest.mark.parametrize("transcript", transcripts(), ids=lambda path: path.stem)
def test_transcript(transcript: Path) -> None:
    assert played(transcript) == transcript.read_text()
