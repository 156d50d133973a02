"""This room runs the load generator for Kafka doors: `frame_load.c`, compiled once, with frames built here.

A generator in Python would use as much of a core as what it measures. Each answer is compared, byte by byte,
with the one that is expected; a different one ends the run.
"""

import json
import shutil
import socket
import struct
import subprocess
import tempfile
import zlib
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self

from muster.kafkawire.api_table import ApiKey, build, encode_request, request_class

API_VERSIONS = ApiKey.API_VERSIONS
PROBING_CONNECTIONS = 50
SOURCE = Path(__file__).with_suffix(".c")


class Question(NamedTuple):
    """What one connection asks again and again, and the answer it must get.

    `offsets_at`: where in the request eight bytes stand that are one higher each time; `any_at`: where in the
    answer eight bytes stand that are whatever they are. `compared_bytes`: so many of the answer are compared,
    and all are counted; None: all are compared, too. `number_at` and `answered_at`: where the correlation id
    stands in both. `digits`: it and the offsets are text, so long and with a one in front; 0: Kafka's.
    """

    request: bytes
    answer: bytes
    offsets_at: tuple[int, ...] = ()
    any_at: tuple[int, ...] = ()
    compared_bytes: int | None = None
    number_at: int = 8
    answered_at: int = 4
    digits: int = 0


class Window(NamedTuple):
    """What came of one stretch of load; times run from the request, or when it was due, to its answer."""

    rate: float
    p50_ms: float
    p99_ms: float
    p999_ms: float
    max_ms: float
    cpu_s: float
    """What the generator itself used."""
    answers: int
    seconds: float

    @property
    def generator_core(self) -> float:
        """The share of a core that the generator used: near 1 it measured itself."""
        return self.cpu_s / self.seconds


class FrameLoad:
    """A generator process with its connections; its windows follow one another."""

    def __init__(
        self,
        home: Path,
        host: str,
        port: int,
        questions: Sequence[Question],
        open_already: Sequence[int] = (),
    ) -> None:
        """`open_already`: descriptors of connections, one for each question, on which nothing waits."""
        with tempfile.NamedTemporaryFile() as file:
            file.write(struct.pack("=I", len(questions)))
            for place, one in enumerate(questions):
                file.write(struct.pack("=i", open_already[place] if open_already else -1))
                offsets = struct.pack(f"={len(one.offsets_at)}I", *one.offsets_at)
                anything = struct.pack(f"={len(one.any_at)}I", *one.any_at)
                for part in (one.request, one.answer, offsets, anything):
                    file.write(struct.pack("=I", len(part)) + part)
                compared = len(one.answer) if one.compared_bytes is None else one.compared_bytes
                file.write(struct.pack("=4I", compared, one.number_at, one.answered_at, one.digits))
            file.flush()
            self._process = subprocess.Popen(
                [_program(home), host, str(port), file.name],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                pass_fds=open_already,
                text=True,
            )
            self._line()

    def begin(self, seconds: float, in_flight: int = 1, rate: float = 0.0) -> None:
        """Start a window; `end` waits for it. Without a rate each answer is followed by the next question."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{seconds} {in_flight} {rate}\n")
        self._process.stdin.flush()

    def end(self) -> Window:
        """What came of the window that was begun. Raises RuntimeError."""
        return Window(**json.loads(self._line()))

    def window(self, seconds: float, in_flight: int = 1, rate: float = 0.0) -> Window:
        """Both."""
        self.begin(seconds, in_flight, rate)
        return self.end()

    def _line(self) -> str:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"the load generator ended with {self._process.wait()}")
        return line

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.communicate()


def probe(home: Path, host: str, port: int) -> FrameLoad:
    """Asks for ApiVersions, which costs nobody anything: as late as its answers was a node's one loop.

    On so many connections that each waits for its answer before it asks again, at any steady rate.
    """
    request = encode_request(API_VERSIONS, 0, 0, "probe", build(request_class(API_VERSIONS, 0)))
    answer = answer_of(host, port, request)
    return FrameLoad(home, host, port, [Question(request, answer)] * PROBING_CONNECTIONS)


def answer_of(host: str, port: int, request: bytes) -> bytes:
    """The whole frame that answers `request`."""
    with socket.create_connection((host, port), timeout=30) as connection:
        connection.sendall(request)
        with connection.makefile("rb") as answers:
            head = answers.read(4)
            return head + answers.read(int.from_bytes(head, "big"))


def _program(home: Path) -> str:
    """The compiled generator, compiled anew when its source has changed."""
    folder = home / "benchmarks"
    folder.mkdir(parents=True, exist_ok=True)
    program = folder / f"frame_load-{zlib.crc32(SOURCE.read_bytes()):08x}"
    if not program.exists():
        compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
        if compiler is None:
            raise RuntimeError("install a C compiler (cc): the load generator is written in C")
        fresh = program.with_suffix(".new")
        subprocess.run([compiler, "-O2", "-Wall", "-Wextra", "-o", str(fresh), str(SOURCE)], check=True)
        fresh.rename(program)
    return str(program)
