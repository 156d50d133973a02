"""This room tests that nobody reads by filters what Django's admin leaves out of its pages."""

from typing import Any

import pytest
from django.contrib import admin
from django.contrib.auth.models import User
from django.test import Client

from access.grants import Role
from access.models import ApiToken
from access.service import create_token, create_user
from tests.integration.web import cast

LOOKUPS = ("", "__startswith", "__gt", "__gte", "__lt", "__regex", "__isnull", "__contains", "__in")
VALUES = ("0", "%00", "pbkdf2", "1")


def _left_out() -> list[tuple[Any, str]]:
    """Every model that the admin shows, with each column that it does not."""
    shown = admin.site._registry
    return [(model, column) for model, page in shown.items() for column in page.exclude or ()]


@pytest.fixture
def admin_client(db: None, client: Client) -> Client:
    """A browser with the session of an administrator, who may see every list."""
    client.force_login(create_user("mira", Role.ADMIN, None))
    return client


def test_the_columns_that_are_secret_are_left_out() -> None:
    assert {"secret_hash", "token_hash", "digest", "scram"} <= {column for _, column in _left_out()}


def test_the_page_of_a_token_holds_nothing_that_proves_it(admin_client: Client) -> None:
    create_token("team-a", Role.CONSUMER, topics=["orders"])
    (token,) = ApiToken.objects.all()
    page = admin_client.get(f"/admin/access/apitoken/{token.pk}/change/")
    assert page.status_code == 200
    shown = page.content.decode()
    assert "team-a" in shown and "orders" in shown
    for mechanism, proof in (token.scram or {}).items():
        assert mechanism not in shown
        assert not [name for name in ("salt", "stored_key", "server_key") if proof[name] in shown]


@pytest.mark.parametrize(("model", "column"), _left_out(), ids=lambda one: getattr(one, "__name__", one))
def test_no_list_is_filtered_by_a_column_that_is_left_out(
    admin_client: Client, model: Any, column: str
) -> None:
    cast.one_night(groups=1)
    address = f"/admin/{model._meta.app_label}/{model._meta.model_name}/"
    assert admin_client.get(address).status_code == 200
    for lookup in LOOKUPS:
        for value in VALUES:
            answer = admin_client.get(f"{address}?{column}{lookup}={value}")
            assert answer.status_code == 400, f"{address}?{column}{lookup}={value}"


def test_no_list_is_filtered_by_a_secret_of_another_table(admin_client: Client) -> None:
    cast.one_night(groups=1)
    for address in (
        "/admin/groups/partitionownership/?group__members__token_hash__gt=0",
        "/admin/groups/consumergroup/?members__token_hash__startswith=0",
        "/admin/access/apitoken/?principal__user__password__startswith=md5",
        "/admin/access/principal/?user__password__gt=0",
    ):
        assert admin_client.get(address).status_code == 400, address


def test_users_with_their_passwords_have_no_page() -> None:
    assert User not in admin.site._registry
