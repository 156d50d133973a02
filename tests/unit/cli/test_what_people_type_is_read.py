"""Partitions, sizes, spans of time, keys with values, files of Kafka's: what is read, and what is refused."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from muster.cli.failures import ExitCode, Failure
from muster.cli.rest import named
from muster.cli.typed import numbers, pairs, reassignment, scope, size, span_ms


def test_what_fits_is_read() -> None:
    assert scope("orders") == {"topic": "orders"}
    assert scope("orders:0,2-4") == {"topic": "orders", "partitions": [0, 2, 3, 4]}
    assert (size("0"), size("50MB"), size("1.5G"), size("64KiB"), size("10k")) == (
        0,
        50_000_000,
        1_500_000_000,
        65_536,
        10_000,
    )
    assert (span_ms("500ms"), span_ms("10m"), span_ms("7d")) == (500, 600_000, 604_800_000)
    assert pairs(["a=1", "b=x=y", "c="]) == {"a": "1", "b": "x=y", "c": ""}


@pytest.mark.parametrize(
    ("read", "text"),
    [
        (scope, ""),
        (scope, ":0"),
        (scope, "orders:"),
        (scope, "orders:a"),
        (numbers, "3-1"),
        (numbers, "0-"),
        (numbers, "0-99999999999"),
        (numbers, "1-10001"),
        (numbers, "²"),
        (size, "-1"),
        (size, "many"),
        (size, "1EB"),
        (span_ms, "10"),
        (span_ms, "1y"),
        (lambda text: pairs([text]), "retention.ms"),
        (lambda text: pairs([text, text]), "a=1"),
    ],
)
def test_what_does_not_fit_is_a_mistake_of_whoever_typed_it(read: Callable[[str], Any], text: str) -> None:
    with pytest.raises(Failure) as refused:
        read(text)
    assert refused.value.code is ExitCode.USAGE


@pytest.mark.parametrize(
    "written",
    [
        "",
        "[]",
        "{}",
        '{"partitions": [{"topic": "a"}]}',
        '{"partitions": 1}',
        "\x00",
        '{"partitions": [{"topic": "a", "partition": 1.5, "replicas": [1]}]}',
        '{"partitions": [{"topic": "a", "partition": 0, "replicas": [Infinity]}]}',
    ],
)
def test_a_file_that_is_no_reassignment_is_told_by_its_form(written: str, tmp_path: Path) -> None:
    file = tmp_path / "moves.json"
    file.write_text(written, encoding="utf-8")
    with pytest.raises(Failure, match="is no reassignment") as refused:
        reassignment(str(file))
    assert '"replicas": [1, 2]' in refused.value.advice
    with pytest.raises(Failure, match="cannot be read"):
        reassignment(str(tmp_path / "none"))


def test_a_name_is_one_part_of_an_address_whatever_it_holds() -> None:
    assert named("groups", "a/b c?d#e%") == "groups/a%2Fb%20c%3Fd%23e%25"
    assert named("groups", "..") == "groups/%2E%2E" and named("groups", "a..b") == "groups/a..b"
