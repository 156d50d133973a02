"""This room runs a test in a loop whose process is given no processor now and then, as on a busy machine."""

import asyncio
from collections.abc import Coroutine
from typing import Any

import uvloop

LOST_S = 0.03


class Interrupted(uvloop.Loop):
    """Whenever the clock was read, 30 ms are lost before anything else happens."""

    _lost_s = 0.0

    def time(self) -> float:
        self._lost_s += LOST_S
        return super().time() + self._lost_s


def interrupted(work: Coroutine[Any, Any, None]) -> None:
    """Run it so; it fails as it fails."""
    with asyncio.Runner(loop_factory=Interrupted) as runner:
        runner.run(work)
