"""This room waits, with a bound, until the doors of a stack say that they are ready."""

import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterable, Mapping, Sequence

from standalone.children import StartError, log_tail
from standalone.probe import NoWorker, probe
from standalone.processes import Child
from standalone.supervision import State

DOOR_LIMIT_S = 120.0
TOLD_EVERY_S = 15.0
"""Whoever looks on hears what is waited for: some of it only a person can end, while the stack is there."""
LOOK_AGAIN_S = 0.1
# A proxy named by the environment leads elsewhere: the doors of a stack are on this machine.
_straight = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def wait_for_doors(
    children: Iterable[Child],
    states: Callable[[], Mapping[str, State]],
    ready: Callable[[str], None] = lambda name: None,
    slow: Callable[[Mapping[str, str]], None] = lambda answers: None,
) -> None:
    """Wait until /readyz of each child that has one answers 200, and tell who is ``ready`` at once.

    Now and then ``slow`` is told the others' last answers. Raises StartError as soon as one of them has
    ended: its last answer, the end of its log.
    """
    give_up_at = time.monotonic() + DOOR_LIMIT_S
    tell_at = time.monotonic() + TOLD_EVERY_S
    waiting = [child for child in children if child.ready_url]
    while waiting:
        now, answers = states(), {}
        for child in list(waiting):
            answer = answers[child.name] = ask(child.ready_url)
            if answer == "":
                waiting.remove(child)
                ready(child.name)
            elif not now[child.name].running or time.monotonic() > give_up_at:
                how = answer if now[child.name].running else now[child.name].text
                raise StartError(
                    f"{child.name} is not ready: {how}; the end of {child.log}:\n{log_tail(child.log)}"
                )
        if waiting and time.monotonic() >= tell_at:
            tell_at += TOLD_EVERY_S
            slow({name: answer for name, answer in answers.items() if answer})
        time.sleep(LOOK_AGAIN_S if waiting else 0)


def waits(answers: Mapping[str, str]) -> str:
    """Who is not ready yet, and why the first of them is not, in a line."""
    (first, why), *others = answers.items()
    more = f" and {len(others)} more" if others else ""
    return f"waiting for {first}{more}, {DOOR_LIMIT_S:.0f} s at most; {first}: {why}"


def ask(url: str) -> str:
    """Why the door at ``url`` is not ready; empty when it answers 200."""
    ready, said = look(url)
    return "" if ready else said


def look(url: str) -> tuple[bool, str]:
    """Whether the door at ``url`` is ready, and what it says."""
    try:
        with _straight.open(url, timeout=2) as response:
            said = response.read(300).decode(errors="replace").strip()
            return response.status == 200, said if response.status == 200 else f"it answers {response.status}"
    except urllib.error.HTTPError as error:
        return False, f"it answers {error.code}: {error.read(300).decode(errors='replace').strip()}"
    except OSError as error:
        return False, f"nobody answers at {url} ({getattr(error, 'reason', error)})"


def wait_for_a_worker(
    database_url: str, workers: Sequence[Child], states: Callable[[], Mapping[str, State]]
) -> None:
    """Offer one work item to the workers and wait until one of them has done it. Raises StartError."""

    def one_runs() -> bool:
        now = states()
        return any(now[worker.name].running for worker in workers)

    try:
        probe(database_url, one_runs)
    except NoWorker as error:
        ends = "\n".join(f"the end of {worker.log}:\n{log_tail(worker.log)}" for worker in workers)
        raise StartError(f"no worker did the first work item.\n{error}\n{ends}") from error
