"""Whatever a stranger sends, it costs the log a line and no traceback."""

import json
import subprocess
import sys

import pytest

SAID = """
import logging
import sys
from config.log_lines import configure

configure("web", "INFO")
try:
    raise ValueError("evil.example")
except ValueError:
    logging.getLogger(sys.argv[1]).error("it is wrong", exc_info=True)
"""


def said_by(logger: str) -> dict[str, str]:
    ended = subprocess.run([sys.executable, "-c", SAID, logger], capture_output=True, text=True, check=True)
    [line] = ended.stderr.splitlines()
    said: dict[str, str] = json.loads(line)
    assert said["event"] == "it is wrong"
    return said


@pytest.mark.parametrize("mistake", ["DisallowedHost", "TooManyFieldsSent", "DisallowedModelAdminLookup"])
def test_what_a_stranger_did_wrong_is_told_in_one_short_line(mistake: str) -> None:
    said = said_by(f"django.security.{mistake}")
    assert "exception" not in said
    assert said["level"] == "warning"


def test_our_own_mistakes_are_told_whole() -> None:
    said = said_by("django.request")
    assert "ValueError" in said["exception"]
    assert said["level"] == "error"
