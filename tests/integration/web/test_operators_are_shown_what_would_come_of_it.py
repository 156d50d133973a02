"""Each action of the cluster's pages: its form, its consequences before anything is asked, who may see it."""

import html
import re

import pytest
from django.test import Client

from access.grants import Role
from access.service import create_user
from controller import ask_page
from controller.models import ClientQuota, Partition, Reassignment, Topic
from muster.kernel.error_codes import ErrorCode
from runtime import asking
from runtime.models import WorkItem
from tests.integration.web import cast

pytestmark = pytest.mark.django_db

ACTIONS = (
    "create-topic/",
    "add-partitions/topic/flights/",
    "change-configs/topic/flights/",
    "remove-partitions/topic/flights/",
    "delete-topic/topic/flights/",
    "move-partition/partition/flights/0/",
    "elect-leader/partition/flights/0/",
    "cordon-broker/broker/3/",
    "uncordon-broker/broker/3/",
    "unregister-broker/broker/4/",
    "elect-any-live/partition/flights/0/",
    "elect-preferred/",
    "elect-preferred-of/topic/flights/",
    "set-quota/",
    "change-quota/quota/1/",
)

NO_MOVE = "5ab0e8a1-3c55-4a1c-8a2f-0d8c3f1c9c11"
"""No move has this id. Workers collect each for itself: what a test is called must be the same in all."""


@pytest.fixture
def operator(db: None, client: Client) -> Client:
    """A browser with the session of an operator, and a topic on three brokers."""
    cast.add_cluster()
    for broker in range(1, 5):
        cast.add_broker(broker, fenced=broker == 4)
    cast.add_topic("flights", 2, [(1, 2, 3), (2, 3, 1)], high_watermark=1_000)
    ClientQuota.objects.create(pk=1, user_name="olga", producer_byte_rate=5_000_000, version=7)
    client.force_login(create_user("olga", Role.OPERATOR, None))
    return client


def add_move(partition: int = 0) -> Reassignment:
    topic = Topic.objects.get(name="flights")
    return Reassignment.objects.create(
        topic_id=topic.topic_id,
        topic_name="flights",
        partition=partition,
        origin=[1, 2, 3],
        target=[4, 2, 3],
        phase="Init",
        asked_version=3,
        asked_place=0,
        version=3,
    )


@pytest.mark.parametrize("address", ACTIONS)
def test_looking_changes_nothing_and_asks_nothing(operator: Client, address: str) -> None:
    page = operator.get(f"/cluster/ask/{address}")
    assert page.status_code == 200
    assert b"Reason, for the journal" in page.content
    assert not WorkItem.objects.exists()


STATED = {
    "create-topic/": {"topic": "gates"},
    "add-partitions/topic/flights/": {"partitions": "4"},
    "remove-partitions/topic/flights/": {"partitions": "1", "force": "yes"},
    "move-partition/partition/flights/0/": {"replicas": "2, 1, 3"},
    "set-quota/": {"user": "ann", "producer_byte_rate": "2"},
    "change-quota/quota/1/": {"producer_byte_rate": "2"},
}


@pytest.mark.parametrize("address", (*ACTIONS, "remove-quota/quota/1/"))
def test_what_would_come_of_it_is_shown_or_that_nobody_can_tell(operator: Client, address: str) -> None:
    """No controller runs here; each form is read as far as that. That of removed partitions was not."""
    page = operator.get(f"/cluster/ask/{address}").content.decode()
    hidden = dict(re.findall(r'type="hidden" name="(version|key)" value="([^"]*)"', page))
    answer = operator.post(f"/cluster/ask/{address}", {**hidden, **STATED.get(address, {})})
    told = answer.content.decode()
    shown = "What would come of it" in told or 'role="alert"' in told
    assert (answer.status_code in (200, 400) and shown) or "The controller does not answer." in told


def test_the_title_says_how_far_a_form_has_come(operator: Client) -> None:
    """It is what is read out first: what would come of it, and why nothing did, were called like the form."""
    assert "<title>Create a topic |" in operator.get("/cluster/ask/create-topic/").content.decode()
    address = "/cluster/ask/cordon-broker/broker/3/"
    assert "<title>What would come of it: Cordon" in operator.get(address).content.decode()
    hasty = operator.post(address, {"go": "yes", "reason": " ", "version": "0"})
    assert "<title>Not done: Cordon" in hasty.content.decode()
    wrong = operator.post("/login/", {"username": "olga", "password": "x"})
    assert "<title>Not signed in |" in wrong.content.decode()


@pytest.mark.parametrize(
    ("kind", "title"),
    [("cordon-broker", "Cordon the broker"), ("uncordon-broker", "Place replicas on it again")],
)
def test_what_was_asked_is_called_as_its_form_is(operator: Client, kind: str, title: str) -> None:
    """Both were called by both names."""
    address = f"/cluster/ask/{kind}/broker/3/"
    hidden = dict(
        re.findall(
            r'type="hidden" name="(version|key)" value="([^"]*)"', operator.get(address).content.decode()
        )
    )
    asked = operator.post(address, {**hidden, "reason": "we test", "go": "yes"}, follow=True)
    assert f"<h1>{title}</h1>" in asked.content.decode()


@pytest.mark.parametrize("address", (*ACTIONS, f"cancel-move/move/{NO_MOVE}/"))
def test_a_viewer_is_neither_shown_nor_let_in(client: Client, operator: Client, address: str) -> None:
    client.force_login(create_user("vera", Role.VIEWER, None))
    assert client.get(f"/cluster/ask/{address}").status_code == 403
    assert client.post(f"/cluster/ask/{address}", {"go": "yes"}).status_code == 403
    add_move()
    for shown in ("/topics/", "/topics/flights/", "/topics/flights/0/", "/reassignments/", "/brokers/1/"):
        assert b"/cluster/ask/" not in client.get(shown).content


def test_an_operator_is_shown_what_he_may_do(operator: Client) -> None:
    add_move()
    for shown in ("/topics/", "/topics/flights/", "/topics/flights/0/", "/reassignments/", "/brokers/1/"):
        assert b"/cluster/ask/" in operator.get(shown).content, shown
    # The past is looked at, not acted on.
    assert b"/cluster/ask/" not in operator.get("/topics/flights/?as_of=2099-01-01T00:00").content


def test_a_deletion_says_what_is_lost_and_who_reads_it(operator: Client) -> None:
    topic = Topic.objects.get(name="flights")
    cast.many_groups(topic, 2)
    text = operator.get("/cluster/ask/delete-topic/topic/flights/").content.decode()
    assert "2 partitions" in text and "2\u202f000" in text
    assert text.count('href="/groups/') >= 2


def test_a_deletion_without_the_name_typed_is_not_asked(operator: Client) -> None:
    address = "/cluster/ask/delete-topic/topic/flights/"
    page = operator.post(
        address, {"go": "yes", "reason": "x", "confirm": "flight", "version": "1", "key": "k"}
    )
    assert page.status_code == 400 and b"type flights as it is" in page.content
    page = operator.post(address, {"go": "yes", "confirm": "flights", "version": "1", "key": "k"})
    assert page.status_code == 400 and b"say why" in page.content
    assert not WorkItem.objects.exists()


def test_a_move_says_what_is_copied_and_who_is_away(operator: Client) -> None:
    row = Partition.objects.get(topic__name="flights", partition=0)
    said = {"replicas": "4, 2, 3", "version": str(row.version)}
    text = operator.post("/cluster/ask/move-partition/partition/flights/0/", said).content.decode()
    assert "Broker 4 has no session: the move waits until it is back" in text
    assert "Then broker 1 erases the log" in text
    said["replicas"] = "77, 2, 3"
    text = operator.post("/cluster/ask/move-partition/partition/flights/0/", said).content.decode()
    assert "Broker 77 never registered" in text
    said["replicas"] = "many"
    page = operator.post("/cluster/ask/move-partition/partition/flights/0/", said)
    assert page.status_code == 400 and b"is not a whole number" in page.content


def test_a_value_that_no_database_takes_is_refused(operator: Client) -> None:
    """Configs may be of any letters: a zero byte among them was a mistake of ours (500)."""
    form = {"config.cleanup.policy": "com\x00pact", "reason": "tried", "version": "88001"}
    refused = operator.post("/cluster/ask/change-configs/topic/flights/", form)
    assert refused.status_code == 400 and b"may hold U+0000" in refused.content
    assert not WorkItem.objects.exists()


def test_a_needless_election_and_an_ended_move_are_said_to_be_so(operator: Client) -> None:
    text = operator.get("/cluster/ask/elect-leader/partition/flights/0/").content.decode()
    assert "leads already" in text
    move = add_move()
    address = f"/cluster/ask/cancel-move/move/{move.id}/"
    assert "The partition stays where it was" in operator.get(address).content.decode()
    Reassignment.objects.update(phase="Done")
    assert "It has ended (Done)" in operator.get(address).content.decode()


def test_an_election_of_many_says_who_leads_more_and_what_stays(operator: Client) -> None:
    for address in ("elect-preferred/", "elect-preferred-of/topic/flights/"):
        assert "nothing would change" in operator.get(f"/cluster/ask/{address}").content.decode()
    cast.add_topic("gates", 3, [(3, 1), (3, 1), (4, 1)])
    Partition.objects.filter(topic__name="gates").update(leader=1)
    Partition.objects.filter(topic__name="gates", partition=1).update(isr=[1])
    for address in ("elect-preferred/", "elect-preferred-of/topic/gates/"):
        text = operator.get(f"/cluster/ask/{address}").content.decode()
        assert "Broker <b>3</b> leads 1 more partition." in text, address
        assert "Broker 3 stands first for others in which it is not in sync" in text, address
        assert "Producers and consumers go on there" in text
        assert "Broker 4 has no session: 1 partition that it stands first for stays as it is" in text, address
    assert (
        "nothing would change"
        in operator.get("/cluster/ask/elect-preferred-of/topic/flights/").content.decode()
    )
    Partition.objects.filter(topic__name="gates", partition=0).update(isr=[1])
    assert "Nothing would change" in operator.get("/cluster/ask/elect-preferred/").content.decode()
    assert b"elect-preferred/" in operator.get("/brokers/").content


@pytest.mark.parametrize(
    ("address", "partitions"),
    [("elect-preferred/", None), ("elect-preferred-of/topic/gates/", [["gates", 0], ["gates", 1]])],
)
def test_an_election_of_many_is_asked_as_one(
    operator: Client, monkeypatch: pytest.MonkeyPatch, address: str, partitions: object
) -> None:
    monkeypatch.setattr(asking, "WAIT_S", 0.0)
    cast.add_topic("gates", 3, [(3, 1), (3, 1), (1, 3)])
    Partition.objects.filter(topic__name="gates").update(leader=1)
    said = {"go": "yes", "reason": "all were restarted", "version": "1", "key": "k"}
    assert operator.post(f"/cluster/ask/{address}", said).status_code == 302
    [item] = WorkItem.objects.all()
    assert item.payload["wish"]["partitions"] == partitions


def test_who_still_serves_is_said_not_to_go(operator: Client) -> None:
    text = operator.get("/cluster/ask/cordon-broker/broker/3/").content.decode()
    assert "It keeps its 2 replicas and goes on leading 0 partitions" in text
    text = operator.get("/cluster/ask/unregister-broker/broker/3/").content.decode()
    assert "It holds 2 replicas: this will be refused" in text and "Its process runs" in text
    text = operator.get("/cluster/ask/unregister-broker/broker/4/").content.decode()
    assert "will be refused" not in text and "its secret opens nothing" in text
    page = operator.get("/brokers/3/").content.decode()
    assert "Refused while it holds replicas" in page


@pytest.mark.parametrize(
    "address",
    (
        "dance/",
        "delete-topic/topic/nobody/",
        "move-partition/partition/flights/9/",
        f"cancel-move/move/{NO_MOVE}/",
        "delete-topic/",
        "create-topic/topic/flights/",
        "elect-leader/topic/flights/",
        "cordon-broker/broker/9/",
        "cordon-broker/broker/9999999999/",
        "cordon-broker/",
    ),
)
def test_what_is_not_there_is_404(operator: Client, address: str) -> None:
    assert operator.get(f"/cluster/ask/{address}").status_code == 404


def test_a_form_about_what_is_gone_says_that_nothing_was_changed(operator: Client) -> None:
    for address in ("/cluster/ask/delete-topic/topic/gone/", "/ask/delete_group/gone/"):
        refused = operator.post(address, {"reason": "retired", "confirm": "gone", "go": "yes", "key": "k"})
        assert refused.status_code == 404 and b"Nothing was changed." in refused.content
        assert b"Nothing was changed." not in operator.get(address).content


def test_requests_are_listed_with_who_and_why(operator: Client) -> None:
    assert b"Nobody has asked for anything" in operator.get("/cluster/requests/").content
    WorkItem.objects.create(
        kind="controller.request",
        lane="controller",
        key="cluster",
        principal="mira",
        reason="a topic for gates",
        payload={"wish": {"type": "DeleteTopics", "topics": [{"name": "flights"}]}},
        state="done",
    )
    [row] = WorkItem.objects.all()
    page = operator.get("/cluster/requests/").content
    assert b"Delete topics" in page and b"a topic for gates" in page
    page = operator.get(f"/cluster/requests/{row.id}/").content
    assert b"Asked, not yet answered" in page
    assert operator.get(f"/cluster/requests/{NO_MOVE}/").status_code == 404
    assert operator.get("/cluster/requests/?after=x").status_code == 400


def test_the_list_of_requests_says_what_was_refused(operator: Client) -> None:
    for number, error in enumerate((0, 3, -1, 84)):
        WorkItem.objects.create(
            kind="controller.request",
            lane="controller",
            key="cluster",
            principal="mira",
            reason=f"the reason number {number}",
            payload={"wish": {"type": "DeleteTopics", "topics": [{"name": "flights"}]}},
            result={"type": "TopicResults", "topics": [{"name": "flights", "error": error}]},
            state="adopted",
        )
    rows = operator.get("/cluster/requests/").content.decode().split("<tr>")
    told = {number: row for row in rows for number in range(4) if f"the reason number {number}" in row}
    assert {number: "refused" in row for number, row in told.items()} == {
        0: False,
        1: True,
        2: True,
        3: False,
    }


def add_requests() -> None:
    """Four of four: one waits, one was done, one was refused, one failed; mira and ola asked in turn."""
    results: tuple[tuple[str, int | None, str], ...] = (
        ("done", None, ""), ("adopted", 0, ""), ("adopted", 3, ""), ("adopted", None, "no worker")
    )  # fmt: skip
    for number, (state, error, failed) in enumerate(results):
        kind = ("DeleteTopics", "CreateTopics")[number % 2]
        WorkItem.objects.create(
            kind="controller.request",
            lane="controller",
            key="cluster",
            principal=("mira", "ola")[number % 2],
            reason=f"the Reason number {number}",
            payload={"wish": {"type": kind, "topics": [{"name": "flights"}]}},
            result=None if error is None else {"type": "TopicResults", "topics": [{"error": error}]},
            error=failed,
            state=state,
        )


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("", "3210"),
        ("?q=reason NUMBER 2", "2"),
        ("?q=OLA", "31"),
        ("?kind=DeleteTopics", "20"),
        ("?state=waiting", "0"),
        ("?state=done", "1"),
        ("?state=refused", "2"),
        ("?state=failed", "3"),
        ("?q=mira&kind=DeleteTopics&state=refused", "2"),
        ("?q=nobody", ""),
    ],
)
def test_requests_are_found_by_who_why_kind_and_what_became_of_them(
    operator: Client, query: str, found: str
) -> None:
    add_requests()
    page = operator.get(f"/cluster/requests/{query}").content.decode()
    assert re.findall(r"the Reason number (\d)", page) == list(found)
    assert ("No request matches" in page) == (not found)


def test_a_filter_of_requests_is_kept_from_page_to_page(
    operator: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ask_page, "REQUESTS_OF_A_PAGE", 1)
    add_requests()
    page = operator.get("/cluster/requests/?q=ola").content.decode()
    following = re.search(r'rel="next" href="([^"]+)"', page)
    assert following is not None
    address = html.unescape(following[1])
    last = operator.get(f"/cluster/requests/{address}").content.decode()
    assert re.findall(r"the Reason number (\d)", last) == ["1"]
    assert 'rel="prev" href="/cluster/requests/?q=ola"' in last and 'rel="next"' not in last
    other = address.replace("q=ola", "q=mira")
    assert operator.get(f"/cluster/requests/{other}").status_code == 400, "it is of another list"
    assert operator.get("/cluster/requests/?state=lost").status_code == 400


@pytest.mark.parametrize(
    ("error", "leads"), [(ErrorCode.INVALID_UPDATE_VERSION, True), (ErrorCode.POLICY_VIOLATION, False)]
)
def test_a_refusal_for_what_changed_meanwhile_leads_to_what_did(
    operator: Client, error: ErrorCode, leads: bool
) -> None:
    """It named two versions, and nobody was told where to look for what is between them."""
    row = WorkItem.objects.create(
        kind="controller.request",
        lane="controller",
        key="cluster",
        principal="mira",
        payload={"wish": {"type": "DeleteTopics", "topics": [{"name": "flights"}]}},
        result={
            "type": "TopicResults",
            "correlation_id": 0,
            "topics": [{"name": "flights", "error": int(error)}],
        },
        state="adopted",
    )
    page = operator.get(f"/cluster/requests/{row.id}/").content.decode()
    assert "Refused." in page
    assert ('<a class="btn" href="/journal/?topic=flights">What changed it</a>' in page) is leads
    assert operator.get("/journal/?topic=flights").status_code == 200
