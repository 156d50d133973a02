"""The programs of docs/kafka-clients.md are the files that the acceptance tests run, to the letter."""

import re

import pytest

from tests.tidy.sources import ROOT

PROGRAMS = {
    "python": "python/consumer.py",
    "java": "java/KafkaReader.java",
    "go": "go/franz/main.go",
    "javascript": "node/consumer.mjs",
}


@pytest.mark.parametrize("language", PROGRAMS)
def test_a_program_is_told_as_it_runs(language: str) -> None:
    page = (ROOT / "docs" / "kafka-clients.md").read_text(encoding="utf-8")
    told = re.findall(rf"^```{language}\n(.*?)^```$", page, re.DOTALL | re.MULTILINE)
    program = ROOT / "tests" / "acceptance" / "clients" / PROGRAMS[language]
    assert told == [program.read_text(encoding="utf-8")]
