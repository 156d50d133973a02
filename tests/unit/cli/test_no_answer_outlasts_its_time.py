"""A try ends in time also where its connection is made only behind the end, as on a slow machine."""

import socket
from types import SimpleNamespace

import httpx
import pytest

from muster.cli.patience import Patience


@pytest.mark.parametrize("event", ["connection.connect_tcp.complete", "connection.start_tls.complete"])
def test_a_connection_that_is_made_behind_the_end_is_hung_up_at_once(event: str) -> None:
    """Its peer trickled for ever: the end had found nothing to hang up."""
    patience = Patience()
    ours, theirs = socket.socketpair()
    with ours, theirs, pytest.raises(httpx.ReadTimeout), patience.within(0):
        assert patience._is_over.wait(60)
        patience.note(event, {"return_value": SimpleNamespace(get_extra_info=lambda _: ours)})
        theirs.setblocking(False)
        assert theirs.recv(1) == b""


def test_the_end_of_one_try_ends_no_later_one() -> None:
    patience = Patience()
    with pytest.raises(httpx.ReadTimeout), patience.within(0):
        assert patience._is_over.wait(60)
    ours, theirs = socket.socketpair()
    with ours, theirs, patience.within(60):
        stream = SimpleNamespace(get_extra_info=lambda _: ours)
        patience.note("connection.connect_tcp.complete", {"return_value": stream})
        ours.sendall(b"it is so")
        assert theirs.recv(8) == b"it is so"
