"""A broker whose logs are flushed ends, whatever its threads wait for, and keeps its mark of a clean stop."""

import os
import subprocess
import sys
from pathlib import Path

from broker.folder import CLEAN_SHUTDOWN_FILE

WAITS_FOR_EVER = """
import asyncio, threading
from broker import command

async def serve(settings, folder, guard):
    asyncio.get_running_loop().run_in_executor(None, threading.Event().wait)
    folder.mark_clean()

command._serve = serve
raise SystemExit(command.main())
"""


def test_it_ends_clean(tmp_path: Path) -> None:
    """One asked for the address of a node while the resolver hung, and stayed for as long."""
    settings = {
        "MUSTER_BROKER_ID": "1",
        "MUSTER_BROKER_DATA": str(tmp_path / "data"),
        "MUSTER_BROKER_LISTEN": "127.0.0.1:0",
        "MUSTER_BROKER_REPLICATION_LISTEN": "127.0.0.1:0",
        "MUSTER_BROKER_SECRET": "a-secret-of-some-length-for-broker-1",
        "MUSTER_NODES": "ws://127.0.0.1:1",
    }
    ended = subprocess.run(
        [sys.executable, "-c", WAITS_FOR_EVER], env=os.environ | settings, capture_output=True, timeout=120
    )
    assert ended.returncode == 0, ended.stderr
    assert (tmp_path / "data" / CLEAN_SHUTDOWN_FILE).exists()
