"""In the middle of an upgrade pages and REST say which version each process runs."""

import contextlib
import re
from typing import Any

import pytest
from django.test import Client

from access.grants import Role
from access.service import create_token, create_user
from controller import processes
from controller.models import BrokerCondition
from groups import standing
from kafkaserver.version import own_version
from runtime import seen
from runtime.models import NodeSession
from runtime.postgres import open_connection
from tests.integration.runtime.conftest import wait_for
from tests.integration.web import cast
from tests.integration.web.served import WebProcess
from tests.integration.web.test_pages_say_what_is import text

OLD = "0.1.0+00000001"


@pytest.fixture
def cluster(fresh_database: str) -> str:
    """A node that is new, and one that does not say; a new broker, an old one, one that has said nothing."""
    cast.add_cluster()
    NodeSession.objects.update(version=own_version())
    began = NodeSession.objects.get().started_at
    NodeSession.objects.create(run="run-2", node="node-2", pid=2, backend_start=began)
    for broker, version in ((1, own_version()), (2, OLD)):
        cast.add_broker(broker)
        cast.say(broker, cast.GIGABYTE)
        BrokerCondition.objects.filter(broker_id=broker).update(version=version)
    cast.add_broker(3)
    standing.forget()
    return fresh_database


def versions() -> list[str]:
    """Of web processes, as they are seen."""
    return [one.version for one in processes.running() if one.kind == "web"]


def test_the_pages_of_the_cluster_and_of_a_broker_say_it(cluster: str, client: Client) -> None:
    client.force_login(create_user("olga", Role.OPERATOR, None))
    page = text(client, "/cluster/")
    assert (
        f"2 of {own_version()}" in page
        and f"1 of {OLD}" in page
        and "2 of a version that does not say" in page
    )
    assert f"This page is of {own_version()}" in page
    assert re.search(rf"live Broker 2 {re.escape(OLD)} not this page's", page)
    assert "live node-2 does not say not this page's" in page
    assert f"Version {OLD}" in text(client, "/brokers/2/")
    assert "Version it does not say" in text(client, "/brokers/3/")


def test_a_node_that_fell_silent_is_a_finding(cluster: str, client: Client) -> None:
    NodeSession.objects.filter(run="run-2").update(renewed_at=cast.ago(minutes=3))
    client.force_login(create_user("olga", Role.OPERATOR, None))
    for address in ("/", "/cluster/"):
        page = text(client, address)
        assert "Node node-2 is silent" in page and "It ended without a word or hangs" in page, address
    token = create_token("vera", Role.VIEWER, replace=True)
    told = client.get("/api/v1/findings", headers={"Authorization": f"Bearer {token}"}).json()["items"]
    assert [one["kind"] for one in told if one["kind"].startswith("node")] == ["node_silent"]


def test_rest_lists_processes_page_by_page(cluster: str, client: Client) -> None:
    token = create_token("vera", Role.VIEWER, replace=True)

    def listed(**asked: Any) -> dict[str, Any]:
        answer = client.get("/api/v1/processes", asked, headers={"Authorization": f"Bearer {token}"})
        assert answer.status_code == 200
        body: dict[str, Any] = answer.json()
        return body

    rows = listed()["items"]
    assert [(one["kind"], one["name"], one["version"], one["state"]) for one in rows] == [
        ("node", "node-1", own_version(), "live"),
        ("node", "node-2", None, "live"),
        ("broker", "1", own_version(), "live"),
        ("broker", "2", OLD, "live"),
        ("broker", "3", None, "live"),
    ]
    first = listed(limit=3)
    assert first["items"] + listed(limit=3, cursor=first["next"])["items"] == rows
    assert [one["name"] for one in listed(kind="node")["items"]] == ["node-1", "node-2"]
    told = client.get("/api/v1/brokers/2/condition", headers={"Authorization": f"Bearer {token}"}).json()
    assert told["program"] == OLD


def test_what_a_node_of_the_version_before_writes_is_taken(cluster: str) -> None:
    """An upgrade migrates first: its controller and its run know no such columns."""
    with open_connection(cluster, "muster-test") as connection:
        connection.execute(
            "INSERT INTO node_session (run, node, pid, backend_start, renewals, ended, draining, addresses,"
            " started_at) VALUES ('run-3', 'node-3', 3, now(), 0, false, false, '{}', now())"
        )
        connection.execute(
            "INSERT INTO broker_condition (broker_id, throttled, throttled_more, at)"
            " VALUES (3, '[]', 0, now())"
        )
    told = {one.name: one.version for one in processes.running()}
    assert (told["node-3"], told["3"]) == ("", "")


def test_web_is_seen_by_the_connection_on_which_it_listens(cluster: str, tmp_path: Any) -> None:
    web = WebProcess(tmp_path / "web.log")
    try:
        wait_for(lambda: versions() == [own_version()], "it listens")
        # One of the version before calls its connection by the kind alone.
        with open_connection(cluster, seen.WEB):
            assert sorted(versions()) == ["", own_version()]
    finally:
        assert web.stop() == 0
    wait_for(lambda: versions() == [], "it is gone")


def test_a_worker_is_seen_by_the_connection_on_which_it_works(cluster: str) -> None:
    names = [f"{seen.WORKER}{seen.as_worker(pid)}" for pid in (4_194_304, 7)]
    assert max(map(len, names)) <= 63
    names += ["muster:worker:w12", "muster:worker:listener"]
    with contextlib.ExitStack() as stack:
        for name in names:
            stack.enter_context(open_connection(cluster, name))
        rows = [one for one in processes.running() if one.kind == "worker"]
    assert sorted((one.version, one.number) for one in rows) == [("", 1), (own_version(), 2)]
