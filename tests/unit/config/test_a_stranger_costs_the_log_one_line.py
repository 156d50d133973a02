"""Whatever a stranger sends, it costs the log a line and no traceback."""

import json
import subprocess
import sys

SAID = """
import logging
from config.log_lines import configure

configure("web", "INFO")
try:
    raise ValueError("evil.example")
except ValueError:
    logging.getLogger("django.security.DisallowedHost").error("Invalid HTTP_HOST header", exc_info=True)
"""


def test_a_host_that_nobody_serves_is_told_in_one_short_line() -> None:
    ended = subprocess.run([sys.executable, "-c", SAID], capture_output=True, text=True, check=True)
    [line] = ended.stderr.splitlines()
    said = json.loads(line)
    assert said["event"] == "Invalid HTTP_HOST header"
    assert "exception" not in said
    assert said["level"] == "warning"
