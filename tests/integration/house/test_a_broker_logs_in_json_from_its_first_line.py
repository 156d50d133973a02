"""What reads a broker's certificate speaks as the rest of it does: a collector of logs loses no line."""

import json
import os
import subprocess
import sys
from pathlib import Path

from tests.tidy.sources import ROOT

CERTIFICATES = ROOT / "tests" / "unit" / "kafkaserver" / "certificates"


def test_that_its_certificate_has_ended_is_a_line_like_all_others(tmp_path: Path) -> None:
    in_the_way = tmp_path / "file"
    in_the_way.touch()
    given = {
        "MUSTER_BROKER_ID": "1",
        "MUSTER_BROKER_DATA": str(in_the_way),
        "MUSTER_BROKER_LISTEN": "127.0.0.1:0",
        "MUSTER_NODES": "ws://127.0.0.1:1",
        "MUSTER_BROKER_SECRET": "s3cret",
        "MUSTER_KAFKA_TLS_CERTIFICATE": str(CERTIFICATES / "expired.crt"),
        "MUSTER_KAFKA_TLS_KEY": str(CERTIFICATES / "expired.key"),
    }
    shell = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    command = [sys.executable, "-m", "broker"]
    ended = subprocess.run(
        command, cwd=ROOT, env=shell | given, capture_output=True, text=True, timeout=60, check=False
    )
    *lines, why = ended.stderr.splitlines()
    assert why.startswith("broker 1: ") and ended.returncode == 3
    assert [json.loads(line)["event"] for line in lines] == ["certificate_ends", "broker runs"]
