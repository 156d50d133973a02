"""What was asked of the controller is found by who, why, kind and outcome, in REST and by command."""

import pytest

from tests.integration.cli.conftest import Muster
from tests.integration.web.test_operators_are_shown_what_would_come_of_it import add_requests


@pytest.mark.parametrize(
    ("words", "found"),
    [
        ((), "3210"),
        (("--contains", "OLA"), "31"),
        (("--kind", "DeleteTopics"), "20"),
        (("--state", "refused"), "2"),
        (("--state", "answered"), "21"),
        (("--contains", "number 0", "--state", "waiting"), "0"),
    ],
)
def test_a_list_holds_what_was_looked_for(viewer: Muster, words: tuple[str, ...], found: str) -> None:
    add_requests()
    rows = viewer.done("requests", "list", "-o", "json", *words).json
    assert [one["reason"][-1] for one in rows] == list(found)


def test_people_are_told_what_each_is_about(viewer: Muster) -> None:
    add_requests()
    told = viewer.done("requests", "list").out
    assert told.count("flights") == 4 and "ABOUT" in told
    assert [word for word in ("waiting", "done", "refused", "failed") if word not in told] == []
