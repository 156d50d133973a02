"""`docs/sdk.md` names every argument, method and state of the Consumer, and every name of `muster`."""

import inspect
from dataclasses import fields

import pytest

import muster
from muster import BlockingConsumer, Consumer, Metrics, Record, State
from tests.tidy.sources import ROOT

PAGE = (ROOT / "docs" / "sdk.md").read_text(encoding="utf-8")
OFFERED = {name for kind in (Consumer, BlockingConsumer) for name in vars(kind) if not name.startswith("_")}
METRICS = ["records", "lag", *(one.name for one in fields(Metrics) if one.repr)]


@pytest.mark.parametrize("name", list(inspect.signature(Consumer.__init__).parameters)[3:])
def test_an_argument_has_its_row(name: str) -> None:
    assert f"| `{name}` |" in PAGE


@pytest.mark.parametrize("name", sorted(OFFERED))
def test_what_a_consumer_offers_is_named(name: str) -> None:
    assert f"`{name}" in PAGE or f".{name}" in PAGE


@pytest.mark.parametrize("state", [str(one) for one in State])
def test_a_state_has_its_row(state: str) -> None:
    assert f"| `{state}` |" in PAGE


@pytest.mark.parametrize("name", [*METRICS, *Record._fields])
def test_a_field_is_named(name: str) -> None:
    assert f"`{name}`" in PAGE


@pytest.mark.parametrize("name", sorted(muster.__all__))
def test_what_is_exported_is_told(name: str) -> None:
    assert name in PAGE
