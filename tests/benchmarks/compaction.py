"""This room measures compaction beside the loop: a log of keyed records is cleaned while others produce.

Records of 1 KiB and of 100 bytes, each key written about five times, in segments of 64 MB; the real cleaner
in a broker's data plane. COMPACTION_MB and COMPACTION_SMALL_MB make the logs smaller; a segment is the least.
"""

import os
import random
import shutil
import signal
import tempfile
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Final

import psutil
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from tests.benchmarks.frame_load import FrameLoad, Window
from tests.benchmarks.produce_consume import Contestant, muster
from tests.benchmarks.raw_produce import produce
from tests.unit.kafkawire.made_batches import made_batch

MEGABYTE: Final = 1_000_000
KINDS: Final = (
    (1024, int(os.environ.get("COMPACTION_MB", "500"))),
    (100, int(os.environ.get("COMPACTION_SMALL_MB", "100"))),
)
"""Bytes of a value, megabytes of values."""
RECORDS_A_KEY: Final = 5
SEGMENT_BYTES: Final = 64 * MEGABYTE
BESIDE_RATE, BESIDE_CONNECTIONS = 2_000, 16
LOOK_S: Final = 0.02


class Watched:
    """The memory of a broker and of those that it started, and their CPU, looked at while it is open."""

    def __init__(self, contestant: Contestant) -> None:
        self._process = contestant.process
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="watching")
        self._loop_s, self._beside_s = self._cpu_s()
        self._before_bytes = self.peak_bytes = self._bytes()
        self._begun = time.perf_counter()
        self._thread.start()

    def _watch(self) -> None:
        while not self._over.wait(LOOK_S):
            self.peak_bytes = max(self.peak_bytes, self._bytes())

    def _bytes(self) -> int:
        total = 0
        for one in (self._process, *self._process.children(recursive=True)):
            with suppress(psutil.NoSuchProcess):
                total += one.memory_info().rss
        return total

    def _cpu_s(self) -> tuple[float, float]:
        used = {one.id: one.user_time + one.system_time for one in self._process.threads()}
        ended = self._process.cpu_times()
        loop_s = used.pop(self._process.pid)
        return loop_s, sum(used.values()) + ended.children_user + ended.children_system

    def end(self) -> tuple[float, float, float, float]:
        """Seconds; CPU seconds of the loop, and beside it; MB that memory grew by at its peak."""
        took_s = time.perf_counter() - self._begun
        self._over.set()
        self._thread.join()
        loop_s, beside_s = self._cpu_s()
        more = (self.peak_bytes - self._before_bytes) / MEGABYTE
        return took_s, loop_s - self._loop_s, beside_s - self._beside_s, more


def fill(contestant: Contestant, topic: str, value_bytes: int, megabytes: int) -> int:
    """Write keyed records, in random order of keys; returns how many keys there are."""
    configs = {
        "cleanup.policy": "compact",
        "segment.bytes": str(SEGMENT_BYTES),
        "min.cleanable.dirty.ratio": "0.0",
    }
    admin = AdminClient({"bootstrap.servers": contestant.bootstrap})
    admin.create_topics([NewTopic(topic, 1, 1, config=configs)])[topic].result(30)
    producer = Producer(
        {"bootstrap.servers": contestant.bootstrap, "linger.ms": 5, "batch.size": 65_536, "log_level": 0}
    )
    value, count = os.urandom(value_bytes), megabytes * MEGABYTE // value_bytes
    dice = random.Random(7)
    keys = [b"customer-%07d" % number for number in range(count // RECORDS_A_KEY)]
    for _ in range(count):
        while True:
            try:
                producer.produce(topic, value, dice.choice(keys))
                break
            except BufferError:
                producer.poll(0.05)
    assert producer.flush(120) == 0
    return len(keys)


def clean(contestant: Contestant) -> int:
    """Let the cleaner run until nothing is dirty; returns how many passes there were."""
    contestant.process.send_signal(signal.SIGUSR1)
    said, passes = contestant.line().split()
    assert said == "cleaned"
    return int(passes)


def on_disk(folder: Path, topic: str) -> int:
    """Bytes of the closed segments of a topic's one partition, of which none is erased."""
    logs = sorted((folder / "muster" / f"{topic}-0").glob("*.log"))
    return sum(path.stat().st_size for path in logs[:-1])


def one(home: Path, folder: Path, contestant: Contestant, value_bytes: int, megabytes: int) -> str:
    """The line of one log."""
    topic = f"customers-{value_bytes}"
    keys = fill(contestant, topic, value_bytes, megabytes)
    before = on_disk(folder, topic)
    contestant.new_topic(f"orders-{value_bytes}", BESIDE_CONNECTIONS)
    records = bytes(made_batch([bytes(100)], timestamp_ms=int(time.time() * 1000)))
    asked = [produce(f"orders-{value_bytes}", number, records) for number in range(BESIDE_CONNECTIONS)]
    host, _, port = contestant.bootstrap.rpartition(":")
    windows: list[Window] = []
    with FrameLoad(home, host, int(port), asked) as load:
        load.window(1.0, rate=BESIDE_RATE)
        alone = load.window(3.0, rate=BESIDE_RATE)
        over = threading.Event()

        def beside() -> None:
            while not over.is_set():
                windows.append(load.window(0.5, rate=BESIDE_RATE))

        producing = threading.Thread(target=beside, name="producing")
        watched = Watched(contestant)
        producing.start()
        try:
            passes = clean(contestant)
            took_s, loop_s, beside_s, more = watched.end()
        finally:
            over.set()
            producing.join()
    after = on_disk(folder, topic)
    assert passes and after < before, "nothing was compacted"
    megabytes_before = before / MEGABYTE
    during = windows[: max(int(took_s / 0.5), 1)]
    return (
        f"{value_bytes:>8}{megabytes_before:>8.0f}{after / MEGABYTE:>8.0f}{keys:>9,}{passes:>8}"
        f"{megabytes_before / took_s:>10.1f}{megabytes_before / beside_s:>10.1f}"
        f"{loop_s / took_s:>11.2f}{more:>9.1f}{alone.p50_ms:>9.2f}{alone.p99_ms:>8.2f}"
        f"{max(w.p50_ms for w in during):>11.2f}{max(w.p99_ms for w in during):>8.2f}"
        f"{max(w.max_ms for w in during):>9.2f}"
    )


def run(home: Path) -> list[str]:
    """The table's lines. Makes and removes a folder for the logs under `home`."""
    home.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix="compaction-", dir=home)).resolve()
    lines = [
        f"compaction beside {BESIDE_RATE:,} produce requests/s; the slowest of windows of 0.5 s",
        f"{'value B':>8}{'MB':>8}{'after':>8}{'keys':>9}{'passes':>8}{'MB/s':>10}{'MB/CPU s':>10}"
        f"{'loop cores':>11}{'more MB':>9}{'p50 ms':>9}{'p99':>8}{'beside p50':>11}{'p99':>8}{'max':>9}",
    ]
    try:
        (folder / "muster").mkdir()
        with muster(folder / "muster") as contestant:
            lines += [one(home, folder, contestant, size, megabytes) for size, megabytes in KINDS]
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return lines


def main() -> None:
    """`python -m tests.benchmarks.compaction`"""
    print("\n".join(run(Path(os.environ.get("MUSTER_HOME", ".muster")))))


if __name__ == "__main__":
    main()
