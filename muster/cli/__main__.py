"""This room starts the command line, and says what is missing where only the library was installed."""

import signal
import sys
from importlib.util import find_spec

INTERRUPTED = 130
NEEDED = ("httpx", "rich", "typer")


def main() -> None:
    """The command `muster`."""
    missing = [name for name in NEEDED if find_spec(name) is None]
    if missing:
        needs = f"muster: the command line needs {', '.join(missing)}, which the library does not:"
        sys.stderr.write(f"{needs} pip install 'muster[cli]'\n")
        sys.exit(2)
    try:
        from muster.cli.app import app

        app(prog_name="muster")
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
    finally:
        # What Python does at its end is no place for a traceback.
        for one in (signal.SIGINT, signal.SIGTERM):
            signal.signal(one, signal.SIG_DFL)


if __name__ == "__main__":
    main()
