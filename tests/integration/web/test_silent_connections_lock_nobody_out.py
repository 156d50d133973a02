"""Thousands of connections that say nothing, from a few addresses, take no page and no probe from anybody."""

import contextlib
import http.client
import resource
import socket
from urllib.parse import urlsplit

import pytest

from tests.integration.web.served import WebProcess

ADDRESSES = 6
OF_EACH = 350
"""Fewer than may be half open of one address, and in all more than uvicorn's usual bound would let live."""


def test_pages_and_probes_are_served_beside_them(web: WebProcess) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < 2 * ADDRESSES * OF_EACH:
        pytest.skip("a process of this machine may not open that many files")
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    parts = urlsplit(web.url)
    door = (str(parts.hostname), int(parts.port or 0))
    try:
        with contextlib.ExitStack() as silent:
            for number in range(ADDRESSES * OF_EACH):
                whose = (f"127.0.{1 + number % ADDRESSES}.1", 0)
                silent.enter_context(socket.create_connection(door, timeout=20, source_address=whose))
            for path in ("/livez", "/readyz", "/login/"):
                connection = http.client.HTTPConnection(parts.netloc, timeout=20)
                connection.request("GET", path)
                assert connection.getresponse().status == 200, path
                connection.close()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
