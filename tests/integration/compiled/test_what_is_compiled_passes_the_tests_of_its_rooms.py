"""What mypyc makes of the hot modules passes the tests of their rooms, as the sources do that it is made of.

Left out are rooms whose tests put something else in the place of a compiled class, which refuses it.
"""

import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
FOLLOWERS = "broker_data_plane/test_who_begins_to_follow_is_not_kept_waiting.py"
ROOMS = tuple(
    f"tests/unit/{room}" for room in ("gateway", "kafkawire", "broker_core", "classic_core", FOLLOWERS)
)

RUN = """
import os, sys
from pathlib import Path
from kafkaserver.compiled import running, use_what_is_compiled
use_what_is_compiled({}, Path(sys.argv[1]))
if not running.modules:
    sys.exit(str(running))
import pytest
sys.exit(pytest.main(sys.argv[2:]))
"""


def done(*arguments: str) -> str:
    """What this Python said at the root of the sources; it must have ended well."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    ended = subprocess.run(
        [sys.executable, *arguments], cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    assert ended.returncode == 0, ended.stdout[-8_000:] + ended.stderr[-4_000:]
    return ended.stdout


@pytest.mark.timeout(900)
def test_what_is_compiled_passes_the_tests_of_its_rooms(tmp_path: Path) -> None:
    if shutil.which("cc") is None or not Path(sysconfig.get_path("include"), "Python.h").is_file():
        pytest.skip("no C compiler, or not the headers of this Python: nothing can be compiled here")
    build = tmp_path / "compiled"
    assert "compiled modules" in done(".ci/compiled.py", str(build), "0")
    said = done("-c", RUN, str(build), "-q", "-n", "0", "-p", "no:cacheprovider", *ROOMS)
    assert " passed" in said and " failed" not in said
