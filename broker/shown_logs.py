"""This room shows the controller how far logs go, where a database was set back and is not believed."""

from collections.abc import Callable, Iterable

from broker.core.log_ends import end_for
from broker.replicas import DataPlane
from muster.messages.limits import MAX_ROWS_PER_FRAME
from muster.messages.link.from_broker import FromBroker
from muster.messages.link.log_ends import LogEnds
from muster.messages.link.protocol import SHOWS_LOGS
from muster.messages.link.rows import PartitionRow


class ShownLogs:
    """Says them behind the rows that ask: by then nobody is followed, so no log grows or is cut any more.

    A link that breaks in between is made good by the snapshot of the next one, as for any row.
    """

    def __init__(self, plane: DataPlane, send: Callable[[FromBroker], bool]) -> None:
        self._plane = plane
        self._send = send
        self._is_understood = False

    def linked(self, protocol: int) -> None:
        """A link is bound; an older controller elects by the rows alone."""
        self._is_understood = protocol >= SHOWS_LOGS

    def show(self, obeyed: Iterable[PartitionRow]) -> None:
        """Tell of those of `obeyed` that ask for it."""
        asking = [row for row in obeyed if row.is_unproven] if self._is_understood else []
        hosted = ((row, self._plane.hosted(row.topic_id, row.partition)) for row in asking)
        led = self._plane.led_epochs
        shown = [end for row, one in hosted if one is not None and (end := end_for(row, one.replica, led))]
        for at in range(0, len(shown), MAX_ROWS_PER_FRAME):
            self._send(LogEnds(ends=tuple(shown[at : at + MAX_ROWS_PER_FRAME])))
