"""The list of refusals is read by people: ordered by number, and nothing stands there that nobody says."""

import re

from muster.kernel.error_codes import ErrorCode
from tests.tidy.sources import ROOT, modules


def test_refusals_are_listed_by_number() -> None:
    assert list(ErrorCode) == sorted(ErrorCode)


def test_every_refusal_is_said_or_understood_by_somebody() -> None:
    own = ROOT / "muster" / "kernel" / "error_codes.py"
    words: set[str] = set()
    for path in modules():
        if path != own:
            words |= set(re.findall(r"[A-Z_]{4,}", path.read_text(encoding="utf-8")))
    assert [code.name for code in ErrorCode if code.name not in words] == []
