"""This room lets a test end or stop this very process at a named point; silent unless MUSTER_TEST=1."""

import os
import signal
import threading
from collections.abc import Mapping

ACTIONS = {"exit": signal.SIGKILL, "stop": signal.SIGSTOP}


class UnknownAction(Exception):
    """MUSTER_FAILPOINTS names an action that does not exist."""


class Failpoints:
    """Points by name, each with what happens there and at which passing.

    Written `name=action` or `name=action@3`, separated by `;`. `exit` is a kill -9, `stop` a SIGSTOP.
    """

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._armed: dict[str, tuple[signal.Signals, int]] = {}
        self._passed: dict[str, int] = {}
        self._lock = threading.Lock()
        if environment.get("MUSTER_TEST") != "1":
            return
        for part in environment.get("MUSTER_FAILPOINTS", "").split(";"):
            name, _, action = part.strip().partition("=")
            if not name:
                continue
            action, _, passing = action.partition("@")
            if action not in ACTIONS:
                raise UnknownAction(f"{name}={action}")
            self._armed[name] = (ACTIONS[action], int(passing or 1))

    def passing(self, name: str) -> None:
        """Say that the program passes the point `name`."""
        if name not in self._armed:
            return
        with self._lock:
            self._passed[name] = self._passed.get(name, 0) + 1
            action, at = self._armed[name]
            if self._passed[name] == at:
                # To this thread, not to the process: the kernel may hand a process's signal to another
                # thread, and this one would pass the point and go on until that one has run.
                signal.pthread_kill(threading.get_ident(), action)


_failpoints = Failpoints(os.environ)


def passing(name: str) -> None:
    """Say that the program passes the point `name` (Failpoints.passing on the process's environment)."""
    _failpoints.passing(name)
