"""The journal as a page: who did what, when and why, filtered, paged by place, by indexes alone."""

import re
from datetime import timedelta
from html import unescape
from uuid import uuid4

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from access.grants import Role
from access.service import create_user
from controller.core.records import PartitionsChanged, RequestAnswered
from controller.models import Topic
from groups.core.records import RequestDecided
from groups.core.requests import Answer, Verdict
from muster.kernel.error_codes import ErrorCode
from muster.messages.link.rows import AlikePartitions
from muster.messages.link.to_broker import TopicResult, TopicResults
from runtime.models import NodeSession
from tests.integration.web import cast
from tests.integration.web.test_pages_tell_how_brokers_are import shown
from tests.integration.web.test_plans_are_shown_and_steered import add_plan
from web import journal_rows
from web.journal_rows import KINDS, Wanted

pytestmark = pytest.mark.django_db

NONE, TAKEN = ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS
REQUEST = "5f0c1c57-58a0-4d1c-8b53-6b3a0f5b8f11"


@pytest.fixture
def viewer(db: None, client: Client) -> Client:
    """A browser with the session of a viewer, and two brokers with a topic."""
    cast.add_cluster()
    for broker in (1, 2):
        cast.add_broker(broker)
    cast.add_topic("orders", 1, [(1, 2)])
    client.force_login(create_user("vera", Role.VIEWER, None))
    return client


def ask(by: str, why: str, seconds_ago: int = 0, **summary: object) -> None:
    """A turn of the controller that somebody asked for."""
    asked = [{"what": "CreateTopics", "by": by, "why": why, "request": REQUEST}]
    at = cast.ago(seconds=seconds_ago)
    cast.journal("controller", "cluster", at, "topics were asked for", [], asked=asked, **summary)


def test_a_restore_is_about_the_cluster_and_no_group_of_that_name(viewer: Client) -> None:
    cast.add_group("cluster")
    cast.journal("cluster", "cluster", cast.ago(), "PostgreSQL was restored: what is not here is lost", [])
    rows = viewer.get("/journal/").content.decode()
    assert ">the cluster</a>" in rows and "/groups/cluster/" not in rows


def test_it_says_who_did_what_and_why_and_leads_to_what_it_is_about(viewer: Client) -> None:
    ask("olga", "for the gates", topics=["orders", "gone"])
    cast.journal("controller", "cluster", cast.ago(), "broker 2 was silent", [], brokers_fenced=[2])
    page = shown(viewer, "/journal/")
    assert re.search("olga ?: Create topics for the gates", page)
    assert "broker 2 was silent by itself" in page
    html = viewer.get("/journal/").content.decode()
    for address in ("/topics/orders/", "/brokers/2/", f"/cluster/requests/{REQUEST}/", "?by=olga"):
        assert f'href="{address}"' in html, address
    assert "/topics/gone/" not in html, "it has no page any more"
    assert html.index("was silent") < html.index("asked for"), "newest first"


def test_few_partitions_are_named_with_what_they_became(viewer: Client) -> None:
    """One partition changed, it said, and not which: nobody could look for it at night."""
    topic_id = Topic.objects.get().topic_id

    def left(leader: int, isr: tuple[int, ...], *numbers: int) -> PartitionsChanged:
        alike = AlikePartitions(topic_id, (1, 2), leader, 5, isr, numbers)
        return PartitionsChanged(alike, 9, (0,) * len(numbers))

    silent = "broker 2 was silent"
    records = [left(1, (1,), 0), left(-1, (2,), 7)]
    cast.journal("controller", "cluster", cast.ago(), silent, records, partitions_changed=2)
    moved = AlikePartitions(topic_id, (1, 2, 3), 1, 5, (1, 2), (0,), adding=(3,), removing=(2,))
    begun = [PartitionsChanged(moved, 9, (0,))]
    cast.journal("controller", "cluster", cast.ago(), "moved", begun, partitions_changed=1)
    gone = PartitionsChanged(AlikePartitions(uuid4(), (1,), 1, 1, (1,), (0,)), 9, (0,))
    cast.journal("controller", "cluster", cast.ago(), "time passed", [gone], partitions_changed=1)
    cast.journal("controller", "cluster", cast.ago(), "some", [*records, gone], partitions_changed=3)
    many = left(1, (1,), *range(4))
    cast.journal("controller", "cluster", cast.ago(), "many", [many], partitions_changed=4)
    page = shown(viewer, "/journal/")
    assert "orders-0 is led by 1, in sync: 1 orders-7 has no leader, in sync: 2" in page
    assert "orders-0 is led by 1, in sync: 1, 2; gets 3; gives up 2" in page
    for said in ("time passed 1 partition", "some 3 partitions", "many 4 partitions"):
        assert f"{said} changed" in page, "of what is gone with its topic nobody knows the name"
    html = viewer.get("/journal/").content.decode()
    for words in ('<td class="wrap">moved<br>', '<td class="wrap mid">'):
        # A telephone has no column of what a turn is about.
        assert any('href="/topics/orders/0/"' in cell.split("</td>")[0] for cell in html.split(words)[1:])
    assert "/topics/orders/7/" not in html, "it was removed since"


def test_turns_of_plans_lead_to_them(viewer: Client) -> None:
    made, gone = add_plan("Running"), uuid4()
    for plan in (made.id, gone):
        cast.journal(
            "controller", "cluster", cast.ago(), "a plan was to run", [], plans=[f"drain {plan}: Running"]
        )
    assert shown(viewer, "/journal/").count("a plan was to run drain: Running by itself drain plan") == 2
    html = viewer.get("/journal/").content.decode()
    assert f'href="/plans/{made.id}/"' in html and f"/plans/{gone}/" not in html


def test_turns_of_groups_name_their_group_and_who_asked(client: Client) -> None:
    cast.one_night(groups=1)
    client.force_login(create_user("vera", Role.VIEWER, None))
    lane = "coordinator/7"
    told = {"event": "request", "principal": "olga", "request": "reset", "reason": "again", "verdict": "done"}
    cast.journal(lane, "departures", cast.ago(), "olga: reset, done", [], **told)
    page = shown(client, "/journal/?group=departures")
    assert re.search("olga ?: reset, done again", page)
    assert 'href="/groups/departures/"' in client.get("/journal/?group=departures").content.decode()


def answered(*errors: tuple[ErrorCode, str]) -> RequestAnswered:
    """The record of what the controller answered, about so many topics."""
    topics = tuple(TopicResult(name="orders", error=error, text=text) for error, text in errors)
    return RequestAnswered(REQUEST, "olga", "for the gates", TopicResults(correlation_id=0, topics=topics))


@pytest.mark.parametrize(
    ("errors", "said"),
    [
        ([(TAKEN, "there is such a topic.")], "Create topics, refused: there is such a topic for the"),
        ([(TAKEN, "")], "Create topics, refused: TOPIC_ALREADY_EXISTS for the"),
        ([(NONE, ""), (TAKEN, "there is such a topic")], "Create topics, 1 of 2 refused: there is such"),
        ([(NONE, ""), (NONE, "")], "Create topics for the gates"),
    ],
)
def test_it_says_what_was_refused_and_why(
    viewer: Client, errors: list[tuple[ErrorCode, str]], said: str
) -> None:
    """What was refused stood there like what was done."""
    asked = [{"what": "CreateTopics", "by": "olga", "why": "for the gates", "request": REQUEST}]
    records = [answered(*errors)]
    cast.journal("controller", "cluster", cast.ago(), "topics were asked for", records, asked=asked)
    for query in ("", "?by=olga", "?kind=asked"):
        assert said in shown(viewer, f"/journal/{query}"), query


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (Answer(Verdict.REFUSED, 68, "The group has 3 members."), "refused: The group has 3 members again"),
        (Answer(Verdict.CHANGED_MEANWHILE, text="It is at 7."), "changed meanwhile: It is at 7 again"),
        (Answer(Verdict.DONE, text="2 of 2"), "done again"),
    ],
)
def test_it_says_why_a_group_refused(viewer: Client, answer: Answer, said: str) -> None:
    told = {"principal": "olga", "request": "reset", "reason": "again", "verdict": answer.verdict.value}
    records = [RequestDecided(REQUEST, "reset", "olga", "again", answer)]
    cast.journal("coordinator/7", "departures", cast.ago(), "olga: reset", records, event="request", **told)
    assert re.search(f"reset, {said}", shown(viewer, "/journal/"))


def test_each_filter_narrows_and_they_narrow_together(viewer: Client) -> None:
    ask("olga", "for the gates", 3_600, topics=["orders"])
    ask("otto", "for tests", 60, topics=["clicks"])
    cast.journal("controller", "cluster", cast.ago(), "broker 2 was silent", [], brokers_fenced=[2])
    cast.journal("coordinator/7", "departures", cast.ago(), "rebalance opened", [], event="opened")
    hour = (timezone.now() - timedelta(minutes=30)).isoformat()
    for query, expected in (
        ("", 4),
        ("by=olga", 1),
        ("by=nobody", 0),
        ("kind=asked", 2),
        ("kind=brokers", 1),
        ("kind=rebalances", 1),
        ("kind=topics", 2),
        ("topic=orders", 1),
        ("broker=2", 1),
        ("broker=1", 0),
        ("group=departures", 1),
        (f"since={hour}", 3),
        (f"until={hour}", 1),
        (f"kind=topics&since={hour}", 1),
        ("by=olga&topic=clicks", 0),
        ("since=2001-01-01T00:00:00&until=2001-01-02T00:00:00", 0),
    ):
        html = viewer.get("/journal/?" + query.replace("+", "%2B")).content.decode()
        assert len(re.findall(r"<td class=\"num\">", html)) == expected, query
    assert "No turn matches" in shown(viewer, "/journal/?by=nobody")


def test_elections_on_a_topic_are_found_by_its_name(viewer: Client) -> None:
    orders = cast.add_topic("gates", 1, [(1, 2)])
    record = {"record": "PartitionsChanged", "alike": [str(orders.topic_id), [1, 2], 2, 5, [2], [0]]}
    cast.journal("controller", "cluster", cast.ago(), "a link closed", [record], partitions_changed=1)
    assert "a link closed" in shown(viewer, "/journal/?topic=gates")
    assert "a link closed" not in shown(viewer, "/journal/?topic=orders")


def test_pages_follow_each_other_without_a_gap_while_turns_are_taken(viewer: Client) -> None:
    for number in range(120):
        cast.journal("controller", "cluster", cast.ago(seconds=200 - number), f"turn <{number}>", [])
    told: list[int] = []
    address = "/journal/"
    while address:
        html = viewer.get(address).content.decode()
        told += [int(number) for number in re.findall(r"turn &lt;(\d+)&gt;", html)]
        following = re.search(r'rel="next" href="([^"]+)"', html)
        address = "/journal/" + following[1].replace("&amp;", "&") if following else ""
        cast.journal("controller", "cluster", cast.ago(), "came in between", [])
    assert told == list(reversed(range(120)))


def test_where_few_match_a_page_says_how_far_it_looked_and_the_next_goes_on(
    viewer: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journal_rows, "LOOKED_AT", 10)
    ask("olga", "long ago", 500)
    for number in range(25):
        ask("otto", f"{number}", 400 - number)
    found, pages, address = 0, 0, "/journal/?by=olga"
    while address:
        html = viewer.get(address).content.decode()
        found += html.count("long ago")
        pages += 1
        following = re.search(r'rel="next" href="([^"]+)"', html)
        if following and not found:
            assert "None of the last turns matches" in html and "Look further back" in html
        address = "/journal/" + following[1].replace("&amp;", "&") if following else ""
    assert (found, pages) == (1, 3)


def test_what_an_address_cannot_mean_is_refused_in_words(viewer: Client) -> None:
    beyond = ("since=0001-01-01T00:00:00%2B14:00", "until=9999-12-31T23:59:59-12:00")
    for query in ("kind=deeds", "since=yesterday", "broker=one", "after=nonsense", "group=%00", *beyond):
        answer = viewer.get(f"/journal/?{query}")
        assert answer.status_code == 400 and b"Begin at /journal/" in answer.content, query


def test_an_empty_journal_says_so_and_strangers_are_sent_to_sign_in(viewer: Client) -> None:
    assert "Nothing has happened yet" in shown(viewer, "/journal/")
    assert 'href="/journal/"' in viewer.get("/").content.decode(), "the board leads there"
    assert Client().get("/journal/").status_code == 302


def explained(wanted: Wanted) -> str:
    """How PostgreSQL reads the turns of such a page."""
    with CaptureQueriesContext(connection) as asked:
        journal_rows.page(wanted, 50)
    told = []
    for statement in (one["sql"] for one in asked if "lane, seq" in one["sql"]):
        with connection.cursor() as cursor:
            cursor.execute(f"EXPLAIN {statement}")
            told += [row[0] for row in cursor.fetchall()]
    return "\n".join(told)


def test_every_question_goes_by_an_index_of_a_large_journal(
    viewer: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    # As much smaller as this journal is smaller than a large one.
    monkeypatch.setattr(journal_rows, "LOOKED_AT", 500)
    with connection.cursor() as cursor:
        cursor.execute(
            """INSERT INTO journal (lane, seq, turn_id, node, key, cause, summary, records, at)
               SELECT CASE WHEN n %% 3 = 0 THEN 'controller' ELSE 'coordinator/' || n %% 60 END, n, %s,
                   'node-1', CASE WHEN n %% 3 = 0 THEN 'cluster' ELSE 'group-' || n %% 500 END, 'a turn',
                   CASE WHEN n %% 200 = 0 THEN '{"asked": [{"by": "olga"}]}' ELSE '{"members": 3}' END::jsonb,
                   '[]', now() - (40000 - n) * interval '1 second'
               FROM generate_series(1, 40000) AS n""",
            [uuid4()],
        )
        cursor.execute("ANALYZE journal")
    recent = timezone.now() - timedelta(hours=1)
    for wanted, index in (
        (Wanted(), "journal_pkey"),
        (Wanted(before=30_000), "journal_pkey"),
        (Wanted(kind="asked"), "journal_asked"),
        (Wanted(by="olga", before=30_000), "journal_asked"),
        (Wanted(group="group-4"), "journal_by_key"),
        (Wanted(topic="orders"), "journal_lane_seq"),
        (Wanted(kind="brokers", before=20_000), "journal_lane_seq"),
        (Wanted(since=recent), "journal_pkey"),
    ):
        plan = explained(wanted)
        assert index in plan and "Seq Scan on journal" not in plan, (wanted, plan)
        # A group's few thousand turns may be sorted; of millions the order of the index is cheaper.
        assert wanted.group or "Sort" not in plan, (wanted, plan)
    assert set(KINDS) >= {"asked", "losses"}


def newer(viewer: Client, seen: str, narrowed: str = "") -> str:
    """What a page that has seen turns up to there says of new ones, when it reads itself again."""
    html = viewer.get(f"/journal/{narrowed}", headers={"X-Muster-Seen": seen}).content.decode()
    found = re.search(r'<div id="newer"[^>]*>(.*?)</div>', html, re.S)
    assert found is not None
    return re.sub(r"<[^>]+>", "", found[1]).strip()


def test_an_open_page_is_told_how_many_turns_are_new_to_it_and_pass_its_filter(viewer: Client) -> None:
    ask("olga", "first")
    html = viewer.get("/journal/").content.decode()
    watched = re.search(r'data-watch="journal" data-rendered="(\d+)" .* data-seen="(\d+)"', html)
    assert watched is not None and watched[1] == watched[2] == journal_rows.fingerprint()
    assert newer(viewer, watched[2]) == "" == newer(viewer, "not a number")
    ask("ben", "second")
    assert newer(viewer, watched[2]) == "1 new turn: show it"
    assert newer(viewer, watched[2], "?by=olga") == ""
    for _ in range(60):
        ask("ben", "more")
    assert newer(viewer, watched[2]) == "50 or more new turns: show them"


def test_a_page_of_earlier_turns_does_not_live(viewer: Client) -> None:
    for _ in range(60):
        ask("olga", "again")
    html = viewer.get("/journal/").content.decode()
    following = re.search(r'rel="next" href="([^"]+)"', html)
    assert following is not None
    for address in (following[1].replace("&amp;", "&"), "?until=2099-01-01T00:00:00"):
        assert "data-watch" not in viewer.get(f"/journal/{address}").content.decode()


@pytest.mark.parametrize(
    ("page", "narrowed"),
    [
        ("/", "kind=rebalances"),
        ("/groups/airlines %26 gates/", "group=airlines%20%26%20gates"),
        ("/brokers/3/", "broker=3"),
        ("/reassignments/", "kind=moves"),
    ],
)
def test_pages_lead_to_the_turns_they_are_about_and_no_link_of_theirs_is_refused(
    client: Client, page: str, narrowed: str
) -> None:
    cast.one_night(groups=1)
    cast.add_group("airlines & gates")
    NodeSession.objects.update(ended=True)
    client.force_login(create_user("vera", Role.VIEWER, None))
    html = client.get(page).content.decode()
    assert f'href="/journal/?{narrowed}"' in html and "/admin/runtime/journalentry/" not in html
    for address in {unescape(found) for found in re.findall(r'href="(/(?:journal|admin)/[^"]*)"', html)}:
        assert client.get(address).status_code == 200, address
