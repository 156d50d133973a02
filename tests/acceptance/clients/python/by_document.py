"""This room is a member that was written from `docs/protocol.md` alone, as a program that can be killed.

`by_document.py NODES GROUP TOPIC SESSION_MS`, the token in TOKEN.
"""

import os
import secrets
import signal
import sys
import threading

from websockets.exceptions import ConnectionClosed

from tests.integration.sdk.stranger import AskAgainError, Stranger

nodes, group, topic, session = sys.argv[1:]
stopping = threading.Event()
signal.signal(signal.SIGTERM, lambda *_: stopping.set())
member = Stranger(nodes.split(","), os.environ["TOKEN"], group, topic, int(session))
member.consumer_id = f"stranger-{secrets.token_hex(4)}"
mine: list[int] = []
while not stopping.is_set():
    read = member.step(0.1)
    if mine != (mine := sorted(number for _, number in member.positions)):
        print("assigned", *mine)
    for partition, offset, value in read:
        print(partition, offset, "-", value.decode())
    if read and member.connected:
        try:
            member.commit()
        except (ConnectionClosed, TimeoutError):
            # The next step joins again; what was not committed comes again, or is committed then.
            member.hang_up()
while True:
    try:
        # A node that goes sends its members elsewhere, where they can leave.
        member.join()
        member.leave()
        break
    except (AskAgainError, ConnectionClosed, TimeoutError):
        member.hang_up()
