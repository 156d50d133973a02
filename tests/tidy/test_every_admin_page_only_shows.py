"""Rows are changed by the lease holder alone: nobody adds, changes or deletes one in Django's admin."""

import pytest
from django.contrib import admin
from django.contrib.auth.models import AnonymousUser, User
from django.test import RequestFactory


@pytest.mark.parametrize("verb", ["add", "change", "delete"])
def test_not_even_a_superuser_may_write_there(verb: str) -> None:
    request = RequestFactory().get("/admin/")
    request.user = User(username="ann", is_staff=True, is_superuser=True)
    open_doors = [
        model._meta.label
        for model, page in admin.site._registry.items()
        if getattr(page, f"has_{verb}_permission")(request)
    ]
    assert open_doors == []


@pytest.mark.django_db
def test_a_superuser_may_look_and_a_stranger_may_not() -> None:
    request = RequestFactory().get("/admin/")
    ann = User.objects.create_superuser("ann")
    assert admin.site._registry, "no table is shown in the admin"
    for page in admin.site._registry.values():
        request.user = ann
        assert page.has_view_permission(request)
        request.user = AnonymousUser()
        assert not page.has_view_permission(request)


def test_no_page_has_an_action_that_writes() -> None:
    request = RequestFactory().get("/admin/")
    request.user = User(username="ann", is_staff=True, is_superuser=True)
    assert {
        model._meta.label: list(actions)
        for model, page in admin.site._registry.items()
        if (actions := page.get_actions(request))
    } == {}
