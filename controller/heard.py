"""This room keeps which brokers came to this node of late, and whom it hears (leases.md section 10)."""

from collections.abc import Iterable

from muster.kernel.instants import Instant, after, elapsed_ms
from runtime.making_way import CAME_MS, HEARD_MS, OPENED_MS, Heard


class BrokersHeard:
    """Brokers by number, of those that showed their secret."""

    def __init__(self) -> None:
        self._came: dict[int, Instant] = {}
        self._heard_until: dict[int, Instant] = {}

    def came(self, broker_id: int, now: Instant) -> None:
        """It looked for the controller here, and was told to look elsewhere."""
        self._came[broker_id] = now

    def opened(self, broker_id: int, now: Instant) -> None:
        """It said hello to the controller, which this node is."""
        self._heard_until[broker_id] = after(now, OPENED_MS)

    def heard(self, broker_id: int, now: Instant) -> None:
        """It said something else."""
        self._heard_until[broker_id] = max(after(now, HEARD_MS), self._heard_until.get(broker_id, now))

    def of(self, links: Iterable[int], now: Instant, registered: Iterable[int] = ()) -> Heard:
        """What a renewal says and a look goes by; `links`: of whom a link is open."""
        self._came = {one: at for one, at in self._came.items() if elapsed_ms(at, now) < CAME_MS}
        self._heard_until = {one: until for one, until in self._heard_until.items() if now < until}
        linked = frozenset(links) | self._heard_until.keys()
        silent = linked - self._heard_until.keys()
        return Heard(frozenset(self._came), linked, silent, frozenset(registered))
