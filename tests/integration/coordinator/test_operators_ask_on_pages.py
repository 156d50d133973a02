"""An operator asks something of a group on its pages: a form, what would change, the outcome."""

import re
from html import unescape
from typing import Any
from urllib.parse import quote

import pytest
from django.test import Client

from access.grants import Role
from access.service import create_user
from groups.models import GroupQuarantine
from tests.integration.coordinator.control_plane import ControlPlane
from tests.integration.coordinator.operators import add_group


class Person:
    """Somebody at the pages."""

    def __init__(self, group: str, role: Role) -> None:
        self.client = Client()
        self.client.force_login(create_user(f"mira-{role}", role, None))
        self.group = group

    def read(self, address: str) -> str:
        answer = self.client.get(address)
        assert answer.status_code == 200
        return re.sub(r"\s+", " ", unescape(re.sub(r"<[^>]*>", "", answer.content.decode())))

    def post(self, kind: str, **stated: str) -> Any:
        address = f"/ask/{kind}/{quote(self.group)}/"
        form = self.client.get(address).content.decode()
        hidden = dict(re.findall(r'type="hidden" name="(version|key)" value="([^"]*)"', form))
        return self.client.post(address, {**hidden, "reason": "we test", **stated})


@pytest.fixture
def mira(plane: ControlPlane, database: None, group: str) -> Person:
    """An operator, and a group that committed 0, 10, 20, 30 for orders and has no members."""
    add_group(plane, group)
    return Person(group, Role.OPERATOR)


def test_offsets_are_deleted_after_it_was_shown_which(plane: ControlPlane, mira: Person) -> None:
    assert "Delete offsets" in mira.read(f"/groups/{mira.group}/")
    tried = mira.post("delete_offsets", scope="orders:1,2")
    page = tried.content.decode()
    assert "Would be done." in page and "orders-2" in page and 'name="go"' in page
    assert len(plane.committed(mira.group)) == 4
    hasty = mira.post("delete_offsets", scope="orders:1,2", go="yes")
    assert hasty.status_code == 400 and "type the name of the group" in hasty.content.decode()
    assert 'name="go"' in hasty.content.decode() and len(plane.committed(mira.group)) == 4
    done = mira.post("delete_offsets", scope="orders:1,2", go="yes", confirm=mira.group)
    assert done.status_code == 302
    told = mira.read(done.headers["Location"])
    assert "Done. 2 offsets deleted." in told and "mira-operator" in told and "we test" in told
    assert plane.committed(mira.group) == {0: 0, 3: 30}


def test_what_would_change_is_shown_before_anybody_has_said_why(plane: ControlPlane, mira: Person) -> None:
    """Forms about groups asked for the reason first, those about topics and brokers last."""
    form = mira.client.get(f"/ask/delete_offsets/{mira.group}/").content.decode()
    assert re.search(r'name="reason"[^>]*maxlength="500">', form) and "formnovalidate" in form
    tried = mira.post("delete_offsets", scope="orders:1", reason="").content.decode()
    assert "What would change: Delete offsets:" in tried
    assert "Would be done." in tried and re.search(r'name="reason"[^>]* required>', tried)
    unsaid = mira.post("delete_offsets", scope="orders:1", reason=" ", go="yes", confirm=mira.group)
    assert unsaid.status_code == 400 and "say why, in 1 to 500 characters" in unsaid.content.decode()
    assert "Would be done." in unsaid.content.decode() and len(plane.committed(mira.group)) == 4


def test_a_form_that_was_sent_twice_is_carried_out_once(plane: ControlPlane, mira: Person) -> None:
    stated = {"assignor": "range", "rebalance_mode": "eager", "go": "yes", "key": "k" * 32, "version": "3-7"}
    first, again = mira.post("set_strategy", **stated), mira.post("set_strategy", **stated)
    assert first.headers["Location"] == again.headers["Location"]
    assert "Done." in mira.read(first.headers["Location"])


def test_who_looks_at_an_old_version_is_told_and_asked_again(mira: Person) -> None:
    page = mira.post("delete_group", version="3-6").content.decode()
    assert "Not done: Delete the group:" in page
    assert "Changed meanwhile." in page and 'name="go"' not in page and 'value="3-7"' in page


def test_what_does_not_fit_is_said_beside_the_form(mira: Person) -> None:
    assert mira.post("remove_member", member="", minutes="0").status_code == 400
    assert "is not a whole number" in mira.post("remove_member", member="ann", minutes="x").content.decode()
    assert "There is no such group" not in mira.post("reset_offsets", to="time").content.decode()
    too_long = mira.post("remove_member", member="ann", minutes="10081").content.decode()
    assert "10080 minutes (7 days) at most" in too_long
    assert mira.client.get(f"/ask/dance/{mira.group}/").status_code == 404
    assert mira.post("delete_offsets", scope="orders:").status_code == 400, "not: all partitions of it"


def test_what_was_typed_for_another_kind_of_reset_does_not_count(mira: Person) -> None:
    page = mira.post("reset_offsets", to="earliest", offset="7", scope="orders:9").content.decode()
    assert "does not take it" not in page and "There is no orders-9." in page


def test_only_what_was_shown_is_done(plane: ControlPlane, mira: Person) -> None:
    tried = mira.post("delete_offsets", scope="orders:1").content.decode()
    [shown] = re.findall(r'name="shown" value="([^"]*)"', tried)
    stated = {"go": "yes", "confirm": mira.group, "shown": shown}
    other = mira.post("delete_offsets", scope="orders", **stated)
    assert other.status_code == 400 and "says something else than before" in other.content.decode()
    assert len(plane.committed(mira.group)) == 4
    assert mira.post("delete_offsets", scope="orders:1", **stated).status_code == 302


def test_whoever_is_refused_asks_again_and_a_group_that_went_is_not_gone_back_to(mira: Person) -> None:
    refused = mira.post("delete_group", go="yes", confirm=mira.group, version="3-6")
    told = mira.client.get(refused.headers["Location"]).content.decode()
    assert "Changed meanwhile." in told and f"/ask/delete_group/{mira.group}/" in told
    assert "Nothing was done" in told and f'href="/journal/?group={mira.group}"' in told
    done = mira.post("delete_group", go="yes", confirm=mira.group)
    told = mira.client.get(done.headers["Location"]).content.decode()
    assert "Deleted, with 4 committed offsets" in told and f"/groups/{mira.group}/" not in told


def test_only_operators_see_and_send_the_forms(plane: ControlPlane, database: None, group: str) -> None:
    add_group(plane, group)
    vera = Person(group, Role.VIEWER)
    assert "Actions" not in vera.read(f"/groups/{group}/")
    assert vera.client.get(f"/ask/delete_group/{group}/").status_code == 403
    assert vera.client.post(f"/ask/delete_group/{group}/", {"reason": "x", "go": "yes"}).status_code == 403


def test_a_name_that_nobody_can_type_is_confirmed_as_it_is_shown(
    plane: ControlPlane, database: None, group: str
) -> None:
    """Copied from the form, letters that turn a line around came along as others, and long names cut."""
    odd = f"{group}\u202etxt {'w' * 80}"
    add_group(plane, odd)
    mira = Person(odd, Role.OPERATOR)
    tried = unescape(mira.post("delete_group").content.decode())
    [shown] = re.findall(r'Type <b class="id">([^<]*)</b>', tried)
    assert shown == f"{group}[U+202E]txt {'w' * 80}"
    done = mira.post("delete_group", go="yes", confirm=shown)
    assert done.status_code == 302
    assert "Deleted, with 4 committed offsets" in mira.read(done.headers["Location"])


def test_a_name_with_letters_of_two_scripts_says_so(plane: ControlPlane, database: None, group: str) -> None:
    """The Cyrillic letter looks like the Latin one: two groups looked as one in the form that deletes."""
    add_group(plane, f"{group}\u0430")
    tried = Person(f"{group}\u0430", Role.OPERATOR).post("delete_group").content.decode()
    assert "of 2 scripts" in tried and 'Cyrillic <b class="id">\u0430</b>' in tried


def test_a_form_from_elsewhere_is_refused(mira: Person) -> None:
    stranger = Client(enforce_csrf_checks=True)
    stranger.cookies = mira.client.cookies
    assert stranger.post(f"/ask/delete_group/{mira.group}/", {"reason": "x", "go": "yes"}).status_code == 403


@pytest.mark.parametrize(
    "name", [" rd", "two\nlines", "carriage\rreturn", "cafe\u0301", "a[U+000A]b", "w" * 292]
)
def test_whoever_is_kept_out_is_let_in_again_whatever_its_name(
    plane: ControlPlane, mira: Person, name: str
) -> None:
    """A field of one line dropped the ends of lines, and spaces went: another was meant, or nobody."""
    kept = mira.post("remove_member", member=name, minutes="10", go="yes")
    assert kept.status_code == 302, kept.content.decode()
    address = f"/ask/lift_quarantine/{quote(mira.group)}/?member={quote(name)}"
    assert GroupQuarantine.objects.get(group=mira.group).member_id == name
    form = mira.client.get(address).content.decode()
    [shown] = re.findall(r'name="member" value="([^"]*)"', form)
    typed = re.sub(r"[\r\n]", "", unescape(shown))
    tried = mira.post("lift_quarantine", member=typed).content.decode()
    assert re.findall(r'name="member" value="([^"]*)"', tried) == [shown]
    assert mira.post("lift_quarantine", member=typed, go="yes").status_code == 302
    assert not GroupQuarantine.objects.filter(group=mira.group).exists()
