"""A rule's mutant has the name that its decision table gives it, and the table says where it is noticed."""

import re

import pytest

from tests.simulation.leases.mutants import MUTANTS as LEASES
from tests.simulation.native.mutants import MUTANTS as NATIVE
from tests.simulation.native.operator_mutants import MUTANTS as OPERATORS
from tests.simulation.native.test_mutants import TRANSCRIPT_MUTANTS
from tests.simulation.replication.disk_mutants import MUTANTS as DISKS
from tests.simulation.replication.recount_mutants import MUTANTS as REPLICATION
from tests.tidy.sources import ROOT

PLAYED = {name for mutant in (*NATIVE, *OPERATORS, *LEASES) for name in mutant.name.split()}
PLAYED |= REPLICATION.keys() | DISKS.keys()


def page(name: str) -> str:
    return (ROOT / "docs" / "reference" / f"{name}.md").read_text(encoding="utf-8")


def named(text: str) -> set[str]:
    """Names in the brackets at the end of a rule, and in the last column of a table of rules."""
    names = r"(`[a-z_]+`(?:, `[a-z_]+`)*)"
    found = re.findall(rf"\((?:[^()]*:\s+)?{names}(?:; [^()]*)?\)", text)
    found += re.findall(rf"\| {names} \|$", text, re.MULTILINE)
    return {name for group in found for name in re.findall(r"`(\w+)`", group)}


def listed(text: str, heading: str) -> set[str]:
    """Names of the paragraph that begins with `heading`."""
    match = re.search(rf"^{re.escape(heading)}(.*?)(?:\n\n|\Z)", text, re.MULTILINE | re.DOTALL)
    return set(re.findall(r"`([a-z_]+)`", match[1])) if match else set()


ELSEWHERE = "**Not in the simulation**"
TRANSCRIPT = re.compile(r"^\| `(\w+)` \| `(\w+)` \|$", re.MULTILINE)


@pytest.mark.parametrize("name", ["native-protocol", "replication", "leases"])
def test_each_rule_says_whether_the_simulation_plays_without_it(name: str) -> None:
    text = page(name)
    transcripts = {mutant for mutant, _ in TRANSCRIPT.findall(text)}
    rules, elsewhere = named(TRANSCRIPT.sub("", text)), listed(text, ELSEWHERE)
    assert rules - PLAYED - transcripts == elsewhere & rules
    assert elsewhere & PLAYED == set()


def test_every_mutant_of_the_simulation_stands_on_a_page() -> None:
    pages = "".join(page(name) for name in ("native-protocol", "replication", "leases"))
    assert PLAYED - set(re.findall(r"`(\w+)`", pages)) == set()


def test_transcripts_that_notice_a_mutant_are_told() -> None:
    rows = TRANSCRIPT.findall(page("native-protocol"))
    assert {transcript for _, transcript in rows} == {transcript for transcript, _ in TRANSCRIPT_MUTANTS}
