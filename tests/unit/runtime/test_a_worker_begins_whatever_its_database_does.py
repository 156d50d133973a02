"""A worker's child is seen from its start, and begins in time for Celery, which kills one that does not."""

import socket
import threading

from django.test import override_settings
from structlog.testing import capture_logs

from runtime import tasks

SAID = b"SFATAL\0VFATAL\0C57P03\0Mthe database system is starting up\0\0"


def test_a_database_that_says_nothing_yet_is_waited_for_beside_it() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server, capture_logs() as told:
        url = f"postgresql://muster@127.0.0.1:{server.getsockname()[1]}/muster?sslmode=disable"
        with override_settings(DATABASE_DIRECT_URL=f"{url}&gssencmode=disable"):
            tasks.be_seen()
            client, _ = server.accept()
            with client:
                client.recv(1_024)
                client.sendall(b"E" + (len(SAID) + 4).to_bytes(4, "big") + SAID)
                for thread in threading.enumerate():
                    if thread.name == "be seen":
                        thread.join()
    (problem,) = (one["problem"] for one in told)
    assert "starting up" in problem
