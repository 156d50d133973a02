"""A broker with more logs than the system lets it open closes those that were used longest ago."""

import os
import resource
from pathlib import Path

from broker.log.files import OpenFiles


def test_logs_take_no_more_than_half_of_what_is_allowed(tmp_path: Path) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    open_now = len(os.listdir("/proc/self/fd"))
    resource.setrlimit(resource.RLIMIT_NOFILE, (2 * open_now + 50, hard))
    try:
        files = OpenFiles()
        for number in range(2 * open_now + 100):
            files.get(tmp_path / f"{number}.log")
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert len(files) <= open_now + 25
