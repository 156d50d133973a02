"""A certificate that ends soon, or has ended, is served; the log says so, and metrics say when it ends."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from broker.samples import samples_of_guard
from kafkaserver.certificate_end import what_is_wrong
from kafkaserver.guard import Guard
from kafkaserver.tls import Certificate
from muster.kernel.instants import Instant

FOLDER = Path(__file__).parent / "certificates"
DAY_S = 86_400
ENDED_AT = 1_580_515_200
FIRST_ENDS_AT = 4_948_933_295
STAY_WITH_TLS_1_2 = """
openssl_conf = all
[all]
ssl_conf = tls
[tls]
system_default = limits
[limits]
MaxProtocol = TLSv1.2
"""
TELL_THE_END = """
import sys
from pathlib import Path
from kafkaserver.tls import Certificate
print(Certificate(*map(Path, sys.argv[1:])).ends_at)
"""


def warnings_of(chain: Path, key: Path) -> list[str]:
    with capture_logs() as logs:
        Certificate(chain, key)
    return [one["reason"] for one in logs if one["event"] == "certificate_ends"]


def test_of_one_that_has_ended_the_log_says_so() -> None:
    told = warnings_of(FOLDER / "expired.crt", FOLDER / "expired.key")
    assert told == ["it has ended: clients refuse it"]


def test_of_one_that_is_good_for_long_nothing_is_said() -> None:
    assert warnings_of(FOLDER / "first.crt", FOLDER / "first.key") == []


def test_a_machine_that_speaks_tls_1_2_at_most_finds_it_out(tmp_path: Path) -> None:
    told = tmp_path / "openssl.cnf"
    told.write_text(STAY_WITH_TLS_1_2)
    found = subprocess.run(
        [sys.executable, "-c", TELL_THE_END, FOLDER / "first.crt", FOLDER / "first.key"],
        env={**os.environ, "OPENSSL_CONF": str(told)},
        capture_output=True,
        check=False,
    )
    assert found.stderr == b""
    assert float(found.stdout) == FIRST_ENDS_AT


def test_one_with_a_name_that_is_no_text_is_served() -> None:
    assert Certificate(FOLDER / "latin_1_name.crt", FOLDER / "latin_1_name.key").ends_at is None


def test_of_a_chain_the_end_of_its_first_certificate_counts(tmp_path: Path) -> None:
    chain = tmp_path / "chain.crt"
    chain.write_bytes((FOLDER / "first.crt").read_bytes() + (FOLDER / "expired.crt").read_bytes())
    assert Certificate(chain, FOLDER / "first.key").ends_at == FIRST_ENDS_AT


@pytest.mark.parametrize(
    ("left_s", "reason"),
    [
        (14 * DAY_S + 1, ""),
        (14 * DAY_S, "it ends in 14 days"),
        (2 * DAY_S - 1, "it ends in 47 hours"),
        (59, "it ends in 0 hours"),
        (0, "it has ended: clients refuse it"),
    ],
)
def test_it_is_said_two_weeks_before(left_s: int, reason: str) -> None:
    assert what_is_wrong(ENDED_AT, ENDED_AT - left_s) == reason


def test_the_metric_tells_the_end_of_the_one_that_lies_there_though_nobody_connects(tmp_path: Path) -> None:
    """An alarm went on after the renewal, until the next client came."""
    chain, key = tmp_path / "chain.crt", tmp_path / "chain.key"
    shutil.copy(FOLDER / "expired.crt", chain)
    shutil.copy(FOLDER / "expired.key", key)
    guard = Guard.of(sasl=False, chain=str(chain), key=str(key))
    assert samples_of_guard(guard)["muster_broker_certificate_ends_seconds"] == ENDED_AT
    shutil.copy(FOLDER / "first.crt", chain)
    shutil.copy(FOLDER / "first.key", key)
    guard.watch(Instant(0))
    assert samples_of_guard(guard)["muster_broker_certificate_ends_seconds"] == FIRST_ENDS_AT


def test_without_a_certificate_there_is_no_such_metric() -> None:
    assert list(samples_of_guard(Guard())) == ["muster_broker_callers_age_ms"]
