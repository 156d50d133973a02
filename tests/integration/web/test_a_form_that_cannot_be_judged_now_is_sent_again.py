"""A form that the controller does not judge, or of one who asked too much, is kept and may be sent again."""

import pytest
from django.test import Client

from access.grants import Role
from access.service import create_user
from runtime import asking, requests
from runtime.models import WorkItem
from tests.integration.web import cast

pytestmark = pytest.mark.django_db

ADDRESS = "/cluster/ask/add-partitions/topic/flights/"
STATED = {"partitions": "12", "reason": "more gates", "version": "1", "key": "k"}


@pytest.fixture
def operator(db: None, client: Client, monkeypatch: pytest.MonkeyPatch) -> Client:
    """A browser with the session of an operator; no node runs, so that nobody decides."""
    monkeypatch.setattr(asking, "WAIT_S", 0.0)
    cast.add_cluster()
    cast.add_broker(1)
    cast.add_topic("flights", 2, [(1,)])
    cast.add_group("arrivals")
    client.force_login(create_user("olga", Role.OPERATOR, None))
    return client


@pytest.mark.parametrize("go", [{}, {"go": "yes"}], ids=["looks", "goes"])
def test_a_controller_that_does_not_answer_is_not_the_askers_mistake(
    operator: Client, go: dict[str, str]
) -> None:
    page = operator.post(ADDRESS, STATED | go)
    assert (page.status_code, page["Retry-After"]) == (503, "2")
    assert b"The controller does not answer. Nothing was changed" in page.content
    assert b'value="12"' in page.content
    # What it was asked is how it would judge, and no more.
    assert [one.payload["wish"]["validate_only"] for one in WorkItem.objects.all()] == [True]


def test_who_has_too_many_requests_without_an_answer_is_told_to_wait(
    operator: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(requests, "OPEN_MAX", 0)
    page = operator.post(ADDRESS, STATED)
    assert (page.status_code, page["Retry-After"]) == (429, "2")
    assert b"Too many of your requests have no answer yet" in page.content
    page = operator.post("/ask/rebalance/arrivals/", {"reason": "one is idle", "key": "k"})
    assert (page.status_code, page["Retry-After"]) == (429, "2")
    assert b"Too many of your requests have no answer yet" in page.content


def test_a_form_that_does_not_fit_stays_the_askers_mistake(operator: Client) -> None:
    page = operator.post(ADDRESS, STATED | {"partitions": "twelve"})
    assert page.status_code == 400 and "Retry-After" not in page
