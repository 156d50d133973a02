"""The list of requests leads to the topic, partition, broker or plan that each is about."""

import re
from typing import Any

import pytest
from django.test import Client

from runtime.models import WorkItem
from tests.integration.web import cast
from tests.integration.web.test_plans_are_shown_and_steered import add_plan

pytestmark = pytest.mark.django_db


def ask(**wish: Any) -> None:
    """A request that was done, of which this is the wish."""
    WorkItem.objects.create(
        kind="controller.request",
        lane="controller",
        key="cluster",
        principal="olga",
        reason="we test",
        payload={"wish": wish},
        state="adopted",
    )


def cell(operator: Client) -> str:
    """What stands behind the kind of request in the one row."""
    html = operator.get("/cluster/requests/").content.decode()
    found = re.search(r":</a> (.*?)</th>", html)
    assert found is not None
    # No line ends at a hyphen of a name.
    return re.sub("</?span[^>]*>", "", found[1])


def test_it_leads_to_the_page_of_what_is_there(operator: Client) -> None:
    cast.add_topic("orders", 2, [(1, 2)])
    plan = add_plan()
    both: list[Any] = [{"topic": "orders", "partition": number} for number in (0, 1)]
    for wish, expected in (
        (
            {"type": "DeleteTopics", "topics": [{"name": "orders"}, {"name": "gone"}]},
            '<a href="/topics/orders/">orders</a>, gone',
        ),
        (
            {"type": "AlterReassignments", "partitions": both},
            '<a href="/topics/orders/0/">orders-0</a>, <a href="/topics/orders/1/">orders-1</a>',
        ),
        (
            {"type": "ElectLeaders", "partitions": [["orders", -1], ["orders", 2], ["orders", 1]]},
            'orders--1, orders-2, <a href="/topics/orders/1/">orders-1</a>',
        ),
        (
            {"type": "DeleteTopics", "topics": [{"name": name} for name in "abcdef"]},
            "a, b, c and 3 more",
        ),
        ({"type": "CordonBroker", "broker_id": 3}, '<a href="/brokers/3/">broker 3</a>'),
        ({"type": "UnregisterBroker", "broker_id": 9}, "broker 9"),
        ({"type": "PausePlan", "plan_id": str(plan.id)}, f'<a href="/plans/{plan.id}/">Drain broker 3</a>'),
        ({"type": "ElectLeaders", "partitions": None}, '<a href="/cluster/">the cluster</a>'),
        (
            {"type": "AlterClientQuotas", "alterations": [{"entity": [["user", "<b>"]]}]},
            '<a href="/quotas/">user=&lt;b&gt;</a>',
        ),
        ({"type": "AlterClientQuotas", "alterations": [{"entity": []}]}, '<a href="/quotas/">no name</a>'),
        ({"type": "CreateTopics", "topics": [{"name": ""}]}, "no name"),
    ):
        WorkItem.objects.all().delete()
        ask(**wish)
        assert cell(operator) == expected
