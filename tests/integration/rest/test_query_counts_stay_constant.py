"""This room tests that a page of many costs as many statements as a page of few."""

from collections.abc import Callable
from functools import partial

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from access.grants import Role
from access.service import create_user
from groups import standing
from groups.models import ConsumerGroup
from tests.integration.rest.conftest import Caller
from tests.integration.web import cast

pytestmark = pytest.mark.django_db
LISTS = ("/groups/", "/groups/?sort=name")


def statements(ask: Callable[[], object]) -> int:
    """How many statements one request takes that nothing was kept for."""
    standing.forget()
    with CaptureQueriesContext(connection) as captured:
        ask()
    return len(captured)


@pytest.mark.parametrize("path", ["groups", "offsets", "partitions", "topics", "brokers"])
def test_a_list_takes_as_many_statements_for_100_rows_as_for_2(path: str, viewer: Caller) -> None:
    cast.add_cluster()
    for broker in range(1, 4):
        cast.add_broker(broker)
    topic = cast.add_topic("orders", 12, [(1, 2, 3)], high_watermark=1_000)
    cast.many_groups(topic, 2)
    viewer.get(path)
    few = statements(lambda: viewer.get(path))
    cast.many_groups(cast.add_topic("clicks", 120, [(1, 2, 3)], high_watermark=1_000), 0)
    for number in range(200):
        cast.add_group(f"more-{number}")
    assert statements(lambda: viewer.get(path)) == few <= 4


def test_the_page_of_100_of_10_000_groups_takes_as_many_statements_as_one_of_10(client: Client) -> None:
    client.force_login(create_user("ann", Role.VIEWER, None))
    cast.add_cluster()
    cast.add_broker(1)
    topic = cast.add_topic("orders", 2, [(1,)], high_watermark=1_000)
    cast.many_groups(topic, 10)
    for address in LISTS:
        client.get(address)
    few = [statements(partial(client.get, address)) for address in LISTS]
    for number in range(10):
        cast.add_group(f"z-{number}")
    ConsumerGroup.objects.bulk_create(
        ConsumerGroup(name=f"tenant-{number:05d}", shard=number % 64) for number in range(10_000)
    )
    many = [statements(partial(client.get, address)) for address in LISTS]
    assert many == few
    assert max(many) <= 25
    page = client.get("/groups/").content
    assert page.count(b"data-key=") == 100
    assert len(page) < 110_000
