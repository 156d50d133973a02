"""An operator asks something of a group over REST: a real node decides it, and the answer is a document."""

import asyncio
from uuid import uuid4

import pytest

from runtime import asking
from runtime.models import WorkItem
from tests.integration.coordinator.conftest import NewMember
from tests.integration.coordinator.control_plane import PATIENCE_S, ControlPlane, eventually_async
from tests.integration.coordinator.operators import Operator, add_group


@pytest.fixture
def olga(plane: ControlPlane, database: None, group: str) -> Operator:
    """An operator, and a group that committed offsets and has no members."""
    add_group(plane, group)
    return Operator(plane.token("olga", "operator"), group)


def test_what_is_done_is_told_with_its_journal_and_the_next_version(
    plane: ControlPlane, olga: Operator
) -> None:
    before = olga.tag()
    done = olga.ask("set_strategy", match=before, assignor="range")
    assert (done.status_code, done.json()["verdict"]) == (200, "done"), done.content
    assert olga.tag() == '"3-8"' != before
    assert olga.get(done["Location"]).json() == done.json()
    [[summary]] = plane.query("SELECT summary FROM journal WHERE key = %s", olga.group)
    assert isinstance(summary, dict)
    assert (summary["principal"], summary["reason"], summary["request"]) == (
        "olga",
        "we test",
        "set_strategy",
    )
    [listed] = olga.get(f"/api/v1/requests/{olga.group}").json()["items"]
    assert listed == done.json()


def test_another_version_is_412_with_the_row_as_it_is_now(olga: Operator) -> None:
    refused = olga.ask("delete_group", match='"3-6"')
    assert (refused.status_code, refused["ETag"]) == (412, '"3-7"')
    assert refused.json()["current"]["version"] == 7
    assert olga.ask("delete_group", match=None).status_code == 428
    assert olga.ask("delete_group", match='"x"').status_code == 400


def test_a_group_with_members_is_not_deleted_and_kafkas_error_is_named(
    plane: ControlPlane, olga: Operator
) -> None:
    plane.execute(
        "INSERT INTO group_member (group_name, member_id, token_hash, subscription, session_timeout_ms,"
        " auto_commit, auto_offset_reset, client_id, client_host, node)"
        " VALUES (%s, 'ann', sha256('x'), '[{\"topic\": \"orders\"}]', 60000, true, 'latest', '', '', '')",
        olga.group,
    )
    refused = olga.ask("delete_group")
    assert (refused.status_code, refused.json()["kafka_error"]["name"]) == (409, "NON_EMPTY_GROUP")
    assert "ann" in refused.json()["detail"]
    refused = olga.ask("delete_offsets", scope=[{"topic": "orders"}])
    assert refused.json()["kafka_error"]["name"] == "GROUP_SUBSCRIBED_TO_TOPIC"


def test_a_dry_run_shows_what_would_change_and_the_real_one_changes_it(
    plane: ControlPlane, olga: Operator
) -> None:
    scope = [{"topic": "orders", "partitions": [1, 2]}]
    tried = olga.ask("delete_offsets", dry_run=True, scope=scope).json()
    changes = [(one["partition"], one["before"], one["after"]) for one in tried["changes"]]
    assert (tried["verdict"], changes) == ("would be done", [(1, 10, None), (2, 20, None)])
    assert len(plane.committed(olga.group)) == 4
    assert olga.ask("delete_offsets", scope=scope, match='"3-7"').json()["changes"] == tried["changes"]
    assert plane.committed(olga.group) == {0: 0, 3: 30}
    assert olga.ask("delete_group").json()["verdict"] == "done"
    assert plane.committed(olga.group) == {} and olga.ask("delete_group").status_code == 404


def test_a_key_names_one_request(olga: Operator) -> None:
    key = uuid4().hex
    first = olga.ask("set_strategy", key=key, assignor="range", match=olga.tag())
    again = olga.ask("set_strategy", key=key, assignor="range", match='"3-7"')
    assert (again.status_code, again.json()) == (200, first.json())
    assert olga.ask("set_strategy", key=key, assignor="sticky", match='"3-7"').status_code == 422
    assert olga.ask("set_strategy", key="no spaces", assignor="sticky").status_code == 400


@pytest.mark.parametrize(
    "body",
    [
        {"kind": "dance"},
        {"kind": "rebalance", "reason": ""},
        {"kind": "rebalance", "reason": "x" * 501},
        {"kind": "rebalance", "force": True},
        {"kind": "set_strategy", "assignor": "best"},
        {"kind": "delete_offsets"},
        {"kind": "delete_offsets", "scope": [{"topic": "orders", "partitions": [-1]}]},
    ],
)
def test_what_does_not_fit_is_refused_at_the_door(olga: Operator, body: dict[str, object]) -> None:
    answer = olga.ask(str(body.pop("kind")), **body)  # type: ignore[arg-type]
    assert answer.status_code == 400 and answer["Content-Type"] == "application/problem+json"


def test_only_operators_ask(plane: ControlPlane, olga: Operator) -> None:
    vera = Operator(plane.token("vera", "viewer"), olga.group)
    assert vera.ask("rebalance").status_code == 403
    assert vera.get(f"/api/v1/requests/{olga.group}").status_code == 200
    assert Operator("mst_00000000_" + "A" * 43, olga.group).ask("rebalance").status_code == 401


def test_who_waits_too_long_is_told_where_the_answer_will_stand(
    olga: Operator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(asking, "WAIT_S", 0.0)
    later = olga.ask("set_strategy", rebalance_mode="eager")
    # The node may have answered before the first look.
    assert later.status_code in (200, 202)
    monkeypatch.setattr(asking, "WAIT_S", PATIENCE_S)
    told = asking._answered(WorkItem.objects.get(id=later.json()["request"]))
    assert told.result is not None and olga.get(later["Location"]).json()["verdict"] == "done"


async def test_a_forced_rebalance_asks_a_handler(
    plane: ControlPlane, olga: Operator, new_member: NewMember
) -> None:
    ann = new_member("ann")
    await ann.connect()
    await ann.register()
    await eventually_async(lambda: plane.phase(olga.group) == "Stable", "ann owns all")
    done = await asyncio.to_thread(olga.ask_and_hang_up, "rebalance")
    assert done.json()["verdict"] == "done", done.content
