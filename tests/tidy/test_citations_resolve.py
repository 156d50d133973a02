"""What docstrings cite lies in docs/reference: a reader who follows a citation finds the rule."""

import re
from functools import cache
from pathlib import Path

import pytest

from tests.tidy.sources import ROOT, shown, tracked_files

REFERENCE = ROOT / "docs" / "reference"
ENDINGS = (".py", ".sql", ".md", ".html", ".js", ".toml", ".yaml")

NUMBERS = r"(\d+[a-z]?(?:\.\d+)*(?:(?:, | and | to | or )\d+[a-z]?(?:\.\d+)*)*)"
PAGE = re.compile(rf"\b(native-protocol|replication|leases)(?:\.md)?,? sections? {NUMBERS}")
LEASE_EXPERIMENT = re.compile(r"\bleases\.md, (E\d+)")
DESIGN = re.compile(rf"\bdesign(?:\.md)?,? (?:sections? |chapters? )?{NUMBERS}(?: rules? {NUMBERS})?")
CONFORMANCE = re.compile(rf"\bconformance (?:lines? )?(E3|{NUMBERS})")
SPECIFICATION = re.compile(r"\b(00[0-4]),? ?(?:chapters? |sections? |§)(\d+)|\b(002) ([A-H])\b")
DECISION_RECORD = re.compile(r"\bADR (\d+)")


@cache
def headings(page: str) -> frozenset[str]:
    """The numbers of a page's sections, and of the items within them as `7.4`."""
    found: set[str] = set()
    section = ""
    for line in (REFERENCE / page).read_text(encoding="utf-8").splitlines():
        if heading := re.match(r"## (\d+[a-z]?(?:\.\d+)?)\.? ", line):
            section = heading[1]
            found.add(section)
        elif section and (item := re.match(r"(\d+)\. ", line)):
            found.add(f"{section}.{item[1]}")
    return frozenset(found)


@cache
def lines_of_conformance() -> frozenset[str]:
    text = (REFERENCE / "conformance.md").read_text(encoding="utf-8")
    return frozenset(re.findall(r"^- \*\*(\w+)\*\*", text, re.MULTILINE))


@cache
def chapters_of_the_specification() -> frozenset[str]:
    found: set[str] = set()
    page = (REFERENCE / "specification.md").read_text(encoding="utf-8")
    for section in re.split(r"^## ", page, flags=re.M)[1:]:
        for document in re.findall(r"\b00[0-4]\b", section.splitlines()[0]):
            found.add(document)
            found |= {f"{document} {chapter}" for chapter in re.findall(r"^- \*\*§?(\w+)", section, re.M)}
    return frozenset(found)


def spread(numbers: str, known: frozenset[str]) -> set[str]:
    """`4, 5 and 7.1` is three numbers; of `199 to 204` those that stand on the page, and both ends."""
    stated = set(re.findall(r"\d+[a-z]?(?:\.\d+)*", numbers))
    for first, last in re.findall(r"(\d+) to (\d+)", numbers):
        stated |= {number for number in known if number.isdigit() and int(first) <= int(number) <= int(last)}
    return stated


def unresolved(text: str) -> list[str]:
    """Every citation in `text` that leads nowhere."""
    missing: list[str] = []
    for page, numbers in PAGE.findall(text):
        known = headings(f"{page}.md")
        missing += [f"{page}.md section {number}" for number in sorted(spread(numbers, known) - known)]
    for chapters, rules in DESIGN.findall(text):
        known = headings("design.md")
        missing += [f"design chapter {number}" for number in sorted(spread(chapters, known) - known)]
        if rules:
            stated = {f"{chapters}.{rule}" for rule in spread(rules, known)}
            missing += [f"design chapter {rule}" for rule in sorted(stated - known)]
    experiments = (REFERENCE / "leases.md").read_text(encoding="utf-8")
    missing += [name for name in LEASE_EXPERIMENT.findall(text) if f"{name} " not in experiments]
    for numbers, _ in CONFORMANCE.findall(text):
        known = lines_of_conformance()
        stated = {numbers} if numbers == "E3" else spread(numbers, known)
        missing += [f"conformance {number}" for number in sorted(stated - known)]
    for document, chapter, letters, letter in SPECIFICATION.findall(text):
        place = f"{document or letters} {chapter or letter}"
        if place not in chapters_of_the_specification():
            missing.append(place)
    decisions = {int(path.name[:4]) for path in (ROOT / "docs" / "adr").glob("[0-9]*.md")}
    missing += [f"ADR {number}" for number in DECISION_RECORD.findall(text) if int(number) not in decisions]
    return missing


def readers() -> list[Path]:
    return [
        path
        for path in tracked_files()
        if path.suffix in ENDINGS and path != Path(__file__) and "requirements" not in path.name
    ]


def test_every_citation_leads_somewhere() -> None:
    # A citation may be broken over two lines, with a comment sign or a quotation mark between.
    lost = [
        f"{shown(path)}: {citation}"
        for path in readers()
        for citation in unresolved(re.sub(r"\s*\n\s*(?:# |-- )?", " ", path.read_text(encoding="utf-8")))
    ]
    assert not lost, "write the rule into docs/reference, or cite what is there:\n" + "\n".join(lost)


@pytest.mark.parametrize(
    "words",
    [
        "replication.md section 7.44",
        "native-protocol sections 2 and 99",
        "leases.md section 8.30",
        "leases.md, E99",
        "conformance 1225",
        "conformance lines 199 to 2004",
        "design chapter 4.77",
        "design.md 8a rule 60",
        "000 chapter 99",
        "000 §77",
        "ADR 999",
    ],
)
def test_a_citation_that_leads_nowhere_is_found(words: str) -> None:
    assert unresolved(f"By the rules ({words}).")


def test_a_decision_record_has_its_number_alone() -> None:
    numbers: set[int] = set()
    for path in sorted((ROOT / "docs" / "adr").glob("[0-9]*.md")):
        number = int(path.name[:4])
        assert number not in numbers, f"{path.name}: another one has this number"
        assert path.read_text(encoding="utf-8").startswith(f"# {number}. "), path.name
        numbers.add(number)


def test_no_document_is_cited_that_a_reader_does_not_have() -> None:
    words = re.compile(
        r"\b(kafka-conformance|reliability-performance|fast-paths|aesthetics|peers\.md|facts\.md)\b|\(facts,"
    )
    lost = [
        f"{shown(path)}: {match[0]}"
        for path in readers()
        for match in words.finditer(path.read_text(encoding="utf-8"))
    ]
    assert not lost, "\n".join(lost)


def test_the_proof_names_tests_that_exist() -> None:
    page = (REFERENCE / "proof.md").read_text(encoding="utf-8")
    files = [path for path in tracked_files() if path.is_relative_to(ROOT / "tests")]
    names = {path.name for path in files}
    defined = {
        found
        for path in files
        if path.suffix == ".py"
        for found in re.findall(r"^(?:async )?def (test_\w+)", path.read_text(encoding="utf-8"), re.M)
    }
    named = set(re.findall(r"\b(test_\w+(?:\.py)?|\w+\.txt)\b", page))
    assert named and not sorted(named - names - defined)
