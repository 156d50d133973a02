"""`docs/protocol.md` names every frame, each field with its default, codes and limits, as they are."""

import json
import re
from typing import get_args

import msgspec

from muster.kernel.error_codes import ErrorCode
from muster.messages import limits, member
from tests.tidy.sources import ROOT, modules

PAGE = (ROOT / "docs" / "protocol.md").read_text(encoding="utf-8")
SECTIONS = dict(re.findall(r"^### (\w+)\n(.*?)(?=^##|\Z)", PAGE, re.DOTALL | re.MULTILINE))


def _rows(text: str) -> list[tuple[str, str]]:
    cells = [line.strip("|").split("|") for line in text.splitlines() if line.startswith("|")]
    return [(row[0].strip(), row[1].strip()) for row in cells[2:]]


def _fields(frame: type[msgspec.Struct]) -> list[tuple[str, str]]:
    return [
        (field.name, "required" if field.required else json.dumps(_plain(field.default)))
        for field in msgspec.structs.fields(frame)
    ]


def _plain(value: object) -> object:
    return list(value) if isinstance(value, tuple) else value


def test_every_frame_is_told_with_its_fields_and_defaults() -> None:
    frames = {
        str(frame.__struct_config__.tag): frame
        for frame in (*get_args(member.FromMember), *get_args(member.ToMember))
    }
    assert {name: _rows(text) for name, text in SECTIONS.items()} == {
        name: _fields(frame) for name, frame in frames.items()
    }


def test_every_code_is_told_by_its_name() -> None:
    told = dict(
        (name, int(code)) for code, name in re.findall(r"^\| (-?\d+) \| (\w+) \|", PAGE, re.MULTILINE)
    )
    assert told == {name: ErrorCode[name] for name in told}


# What only clients of Kafka's protocol hear of a coordinator.
TO_KAFKA_CLIENTS = {"GROUP_ID_NOT_FOUND", "INVALID_GROUP_ID", "REBALANCE_IN_PROGRESS"}


def test_every_code_that_a_coordinator_says_is_told() -> None:
    said: set[str] = {"MALFORMED_FRAME", "FRAME_TOO_LARGE"}
    for path in modules():
        # What Kafka's clients hear, Kafka's own pages tell; what operators hear, docs/doors.md.
        to_others = "classic" in path.parts or path.stem in ("deletions", "requests", "tasks")
        if path.relative_to(ROOT).parts[0] == "coordinator" and not to_others:
            said |= set(re.findall(r"ErrorCode\.([A-Z_]+)", path.read_text(encoding="utf-8")))
    assert said - {"NONE"} - TO_KAFKA_CLIENTS <= set(re.findall(r"^\| -?\d+ \| (\w+) \|", PAGE, re.MULTILINE))


def test_limits_are_told_as_they_are() -> None:
    sizes = (limits.FRAME_LIMIT_BYTES, limits.BYTES_PER_PARTITION, limits.BYTES_PER_TOPIC, member.TOPICS_MAX)
    assert all(re.search(rf"\b{size:,}\b", PAGE) for size in sizes)
