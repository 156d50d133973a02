"""A broker with more logs than the system lets it open closes those that were used longest ago."""

import subprocess
import sys
from pathlib import Path

# In a process of its own: the bound is the whole process's, and a test run holds files of its own.
PROGRAM = """
import resource, sys
from pathlib import Path
from broker.log.files import OpenFiles

resource.setrlimit(resource.RLIMIT_NOFILE, (100, 100))
files = OpenFiles()
for number in range(300):
    files.get(Path(sys.argv[1]) / f"{number}.log")
print(len(files))
"""


def test_logs_take_no_more_than_half_of_what_is_allowed(tmp_path: Path) -> None:
    root = Path(__file__).resolve().parents[3]
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(tmp_path)], cwd=root, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert 0 < int(done.stdout) <= 50
