"""A filter of the list of groups is kept by its next page and its cursor, and is not passed over."""

from typing import Any
from urllib.parse import parse_qs

import pytest
from django.test import RequestFactory

from access.filters import Filter
from groups import views
from groups.filters import GROUP_FILTERS


def some_value(one: Filter) -> Any:
    return (
        one.schema["enum"][0] if "enum" in one.schema else 7 if one.schema["type"] == "integer" else "orders"
    )


@pytest.mark.parametrize("one", GROUP_FILTERS, ids=lambda one: one.name)
def test_every_filter_stands_in_the_address_of_the_next_page(one: Filter) -> None:
    value = some_value(one)
    asked = views._asked(RequestFactory().get("/groups/", {one.name: value}))
    assert asked.narrowed
    assert parse_qs(asked.address().removeprefix("?")) == {one.name: [str(value)]}
    assert asked.filter.by_lag_alone == (one.name == "lag_over")
