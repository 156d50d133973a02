"""This room plays many websocket members in client processes of their own, two or more, beside a node.

Each process reads commands from its standard input, a line each, and answers each with a line of JSON.
"""

import asyncio
import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from types import TracebackType
from typing import Any, NamedTuple, Self

import msgspec

from tests.benchmarks.raw_member import RawMember, print_json
from tests.integration.coordinator.control_plane import ControlPlane
from tests.tidy.sources import ROOT

AT_ONCE = 50
SPARE = 20
"""Members of the last process that register one by one, by `one_more`."""


class Role(msgspec.Struct):
    """What one process plays."""

    address: str
    group: str
    topics: list[str]
    first: int
    count: int
    session_timeout_ms: int = 30_000
    spare: int = 0


class Counts(NamedTuple):
    """What the members of all processes have heard so far, and what the processes used."""

    pings: int
    stops: int
    starts: int
    losses: int
    lost: int
    """Connections that are gone."""
    cpu_s: float


class MemberProcesses:
    """The client processes of one group: started and connected, then told what to do."""

    def __init__(self, plane: ControlPlane, roles: Sequence[Role]) -> None:
        environment = {**os.environ, "MUSTER_TOKEN": plane.token()}
        self._last = roles[-1]
        self._processes = [
            subprocess.Popen(
                [sys.executable, "-m", "tests.benchmarks.member_processes"],
                cwd=ROOT,
                env=environment,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
            for _ in roles
        ]
        for process, role in zip(self._processes, roles, strict=True):
            _say(process, msgspec.json.encode(role).decode())
        for process in self._processes:
            _hear(process)

    def register(self) -> float:
        """All at once; when the last was answered."""
        return max(float(answer["at"]) for answer in self._all("register"))

    def one_more(self) -> float:
        """One of the spare members registers; when it said so."""
        process = self._processes[-1]
        _say(process, "one more")
        return float(_hear(process)["at"])

    def counts(self) -> Counts:
        """What was heard and used so far."""
        answers = self._all("count")
        return Counts(**{name: sum(answer[name] for answer in answers) for name in Counts._fields})

    def _all(self, command: str) -> list[dict[str, Any]]:
        for process in self._processes:
            _say(process, command)
        return [_hear(process) for process in self._processes]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        for process in self._processes:
            process.kill()
            process.communicate()


def shared(role: Role, processes: int = 2) -> list[Role]:
    """The same role for several processes; the last has the members to spare."""
    each = role.count // processes
    return [
        msgspec.structs.replace(
            role, first=role.first + number * each, count=each, spare=SPARE if number == processes - 1 else 0
        )
        for number in range(processes)
    ]


def _say(process: "subprocess.Popen[str]", line: str) -> None:
    assert process.stdin is not None
    process.stdin.write(line + "\n")
    process.stdin.flush()


def _hear(process: "subprocess.Popen[str]") -> dict[str, Any]:
    assert process.stdout is not None
    line = process.stdout.readline()
    if not line:
        raise RuntimeError("a client process ended")
    found: dict[str, Any] = json.loads(line)
    return found


async def _play(role: Role) -> None:
    token = os.environ["MUSTER_TOKEN"]
    everybody = [
        RawMember(role.group, f"member-{number:05}", role.topics, role.session_timeout_ms)
        for number in range(role.first, role.first + role.count + role.spare)
    ]
    members, spare = everybody[: role.count], everybody[role.count :]
    for start in range(0, role.count, AT_ONCE):
        await asyncio.gather(*(one.connect(role.address, token) for one in members[start : start + AT_ONCE]))
    print_json({"connected": role.count})
    while command := (await asyncio.to_thread(sys.stdin.readline)).strip():
        if command == "register":
            await asyncio.gather(*(member.register() for member in members))
            print_json({"at": time.monotonic()})
        elif command == "one more":
            member = spare.pop(0)
            await member.connect(role.address, token)
            at = time.monotonic()
            await member.register()
            members.append(member)
            print_json({"at": at})
        else:
            print_json(_counts(members))


def _counts(members: list[RawMember]) -> dict[str, float]:
    sums = {name: sum(getattr(one, name) for one in members) for name in Counts._fields[:4]}
    lost = sum(1 for one in members if one.socket is None or one.socket.lost.done())
    return {**sums, "lost": lost, "cpu_s": time.process_time()}


if __name__ == "__main__":
    asyncio.run(_play(msgspec.json.decode(sys.stdin.readline(), type=Role)))
