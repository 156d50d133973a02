"""This room waits, with a bound, until the doors of a stack say that they are ready."""

import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from standalone.children import StartError, log_tail
from standalone.probe import NoWorker, probe
from standalone.processes import Child
from standalone.supervision import State

DOOR_LIMIT_S = 120.0
LOOK_AGAIN_S = 0.1
# A proxy named by the environment leads elsewhere: the doors of a stack are on this machine.
_straight = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def wait_for_door(child: Child, states: Callable[[], Mapping[str, State]]) -> None:
    """Wait until the child's /readyz answers 200. Raises StartError: its last answer, the log's end."""
    give_up_at = time.monotonic() + DOOR_LIMIT_S
    while True:
        answer = ask(child.ready_url)
        if answer == "":
            return
        state = states()[child.name]
        if not state.running or time.monotonic() > give_up_at:
            how = answer if state.running else state.text
            raise StartError(
                f"{child.name} is not ready: {how}; the end of {child.log}:\n{log_tail(child.log)}"
            )
        time.sleep(LOOK_AGAIN_S)


def ask(url: str) -> str:
    """Why the door at ``url`` is not ready; empty when it answers 200."""
    try:
        with _straight.open(url, timeout=2) as response:
            return "" if response.status == 200 else f"it answers {response.status}"
    except urllib.error.HTTPError as error:
        return f"it answers {error.code}: {error.read(300).decode(errors='replace').strip()}"
    except OSError as error:
        return f"nobody answers at {url} ({getattr(error, 'reason', error)})"


def wait_for_a_worker(database_url: str, logs: Sequence[Path]) -> None:
    """Offer one work item to the workers and wait until one of them has done it. Raises StartError."""
    try:
        probe(database_url)
    except NoWorker as error:
        ends = "\n".join(f"the end of {log}:\n{log_tail(log)}" for log in logs)
        raise StartError(f"no worker did the first work item.\n{error}\n{ends}") from error
