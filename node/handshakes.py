"""This room answers handshakes a few at a time: whoever comes back in a crowd does not hold up who serves it.

When a node dies its members come to another one at once. Their handshakes, half a millisecond each, once kept
the loop for half a second, in which that node did not look who has died, nor take any lease.
"""

from typing import Final

from access.bounded_http import BoundedHttp
from runtime.of_loops import OfLoops
from runtime.slices import Slices

SLICE_S: Final = 0.008
"""For so long handshakes are read in a round of the loop; what follows of them takes as long in the next."""

_slices = OfLoops(lambda loop: Slices(loop, SLICE_S))


class PatientHttp(BoundedHttp):
    """A node's protocol: handshakes wait for each other, in the order in which they came."""

    def handle_websocket_upgrade(self) -> None:
        """Now, or in one of the next rounds; until then nothing more is read of the connection."""
        slices = _slices.of(self.loop)
        if slices.has_turn():
            super().handle_websocket_upgrade()
        else:
            self.transport.pause_reading()
            slices.wait(self._go_on)

    def _go_on(self) -> None:
        if not self.transport.is_closing():
            self.transport.resume_reading()
            super().handle_websocket_upgrade()
