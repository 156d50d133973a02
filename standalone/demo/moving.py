"""This room drains a broker by a stored plan while flights are sent, as an operator would do it over REST."""

import threading
from collections.abc import Callable
from typing import Any

import httpx

from standalone.demo.evidence import Check
from standalone.demo.rest import Rest, wait_until
from standalone.ending import End

COMPUTED_SECONDS = 60.0
MOVED_SECONDS = 120.0
RATE_BYTES = 20_000_000
"""A second: what the plan's moves may take of a broker while it serves."""


class Drain(threading.Thread):
    """Proposes a plan that leaves nothing on `broker`, reviews it, approves it, runs it to its end."""

    def __init__(self, rest: Rest, broker: int, ended: End, say: Callable[[str], None]) -> None:
        super().__init__(name="drain", daemon=True)
        self._rest, self._broker, self._ended, self._say = rest, broker, ended, say
        self.problem = ""
        self.plan: dict[str, Any] = {}

    def run(self) -> None:
        """Note what went wrong, if anything did: the check tells it."""
        try:
            self._drain()
        except (httpx.HTTPError, KeyError, ValueError) as error:
            self.problem = f"{type(error).__name__}: {error}"

    def _drain(self) -> None:
        address = self._rest.propose(
            kind="drain", brokers=[self._broker], throttle=RATE_BYTES, reason="it is to be replaced"
        )
        if not self._until(address, "Draft", COMPUTED_SECONDS):
            return
        cost = self.plan["cost"]
        size = cost["bytes"] / 1e6
        self._say(f"           the plan moves {cost['partitions']} partitions, {size:.1f} MB; it is run")
        for kind in ("approve", "run"):
            self._rest.change(address, kind=kind, reason="reviewed")
        self._until(address, "Done", MOVED_SECONDS)

    def _until(self, address: str, phase: str, patience_seconds: float) -> bool:
        """True once the plan is there; else why not is noted."""

        def is_there() -> bool:
            self.plan = self._rest.plan(address)
            return self.plan["phase"] in (phase, "Failed", "Cancelled") or self._ended.is_set()

        if wait_until(is_there, patience_seconds) and self.plan["phase"] == phase:
            return True
        self.problem = f"the plan is {self.plan.get('phase')}: {self.plan.get('why')}"
        return False

    def check(self, rows: list[dict[str, Any]]) -> Check:
        """The promise, by the partitions as they are afterwards."""
        promise = f"a stored plan drained broker {self._broker} while flights were sent"
        left = [row["partition"] for row in rows if self._broker in row["replicas"]]
        steps = self.plan.get("steps", {})
        done = steps.get("done", 0)
        if self.problem or left or not done:
            return Check(promise, False, self.problem or f"{done} moved, partitions {left} are still there")
        return Check(promise, True, f"{done} partitions, {steps['bytes_done'] / 1e6:.1f} MB copied")
