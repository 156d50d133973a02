"""This room compiles what pyproject.toml names with mypyc, into build/compiled; `make plain` takes it away.

A build is made beside the one before and takes its place when it is whole.
"""

import os
import shutil
import sys
import tempfile
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from mypyc.build import mypycify  # noqa: E402
from setuptools import Distribution  # noqa: E402
from setuptools.command.build_ext import build_ext  # noqa: E402

from kafkaserver.compiled import BUILD, SEAL, made_of  # noqa: E402

SHARED = "muster_compiled"


def modules() -> list[str]:
    """The modules to compile."""
    return list(tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["muster"]["compiled"])


def compile_into(folder: Path, scratch: Path, names: list[str], optimisation: str) -> None:
    """Leave the extension modules in `folder`. Ends the process with what mypyc or the compiler said."""
    sources = [name.replace(".", "/") + ".py" for name in names]
    flags = ["--config-file=", "--explicit-package-bases", "--ignore-missing-imports"]
    # What these import `make lint` has checked, with Django's plugin.
    flags += ["--follow-imports=silent", f"--cache-dir={scratch / 'mypy'}"]
    made = mypycify(
        [*flags, *sources],
        opt_level=optimisation,
        debug_level="0",
        multi_file=True,
        group_name=SHARED,
        target_dir=str(scratch / "c"),
    )
    command = build_ext(Distribution({"name": SHARED, "ext_modules": made}))
    command.build_lib, command.build_temp = str(folder), str(scratch / "objects")
    command.parallel = os.cpu_count()
    command.ensure_finalized()
    command.run()


def main(build: Path, optimisation: str = "1") -> None:
    """`python .ci/compiled.py [FOLDER [LEVEL]]`: into build/compiled, of which processes know, or elsewhere.

    With 0 the C compiler takes half of the time, for whoever asks only whether it does the same.
    """
    os.chdir(ROOT)
    build.parent.mkdir(exist_ok=True)
    names = modules()
    made_from = made_of(ROOT, names)
    with tempfile.TemporaryDirectory(prefix="compiling-", dir=build.parent) as scratch:
        folder = Path(scratch, "made")
        compile_into(folder, Path(scratch), names, optimisation)
        if made_of(ROOT, names) != made_from:
            sys.exit("compiled: the sources changed meanwhile; nothing was replaced")
        every = [*names, f"{SHARED}__mypyc"]
        (folder / SEAL).write_text("\n".join([made_from, *every]) + "\n", "utf-8")
        shutil.rmtree(build, ignore_errors=True)
        folder.rename(build)
    print(f"{len(every)} compiled modules; brokers and nodes that start from now on run them.")


if __name__ == "__main__":
    asked = sys.argv[1:]
    main(Path(asked[0]).absolute() if asked else BUILD, *asked[1:])
