"""This room is an operator at the REST door of this process, for tests whose groups a real node owns."""

from typing import Any

from django.db import connections
from django.test import Client

from tests.integration.coordinator.control_plane import ControlPlane

Answer = Any


class Operator:
    """Somebody with a token."""

    def __init__(self, token: str, group: str) -> None:
        self._client = Client(raise_request_exception=False)
        self._headers = {"Authorization": f"Bearer {token}"}
        self.group = group

    def tag(self) -> str:
        """The ETag of the group now."""
        return str(self._client.get(f"/api/v1/groups/{self.group}", headers=self._headers)["ETag"])

    def get(self, path: str) -> Answer:
        return self._client.get(path, headers=self._headers)

    def ask(self, kind: str, *, match: str | None = "*", key: str = "", **more: object) -> Answer:
        """POST a request."""
        headers = {"If-Match": match, "Idempotency-Key": key or None}
        named = self._headers | {name: value for name, value in headers.items() if value is not None}
        body = {"kind": kind, "reason": "we test", **more}
        path = f"/api/v1/requests/{self.group}"
        return self._client.post(path, body, content_type="application/json", headers=named)

    def ask_and_hang_up(self, kind: str, **more: object) -> Answer:
        """`ask` in a thread of its own, whose connection ends with it."""
        try:
            return self.ask(kind, **more)  # type: ignore[arg-type]
        finally:
            connections.close_all()


def add_group(plane: ControlPlane, group: str, topic: str = "orders") -> None:
    """A group that committed 0, 10, 20, … : its owner reads the rows when it is first asked."""
    plane.execute(
        "INSERT INTO consumer_group (name, shard, protocol, phase, generation, version, rebalance_mode,"
        " assignor, error, ephemeral)"
        " VALUES (%s, %s, 'native', 'Empty', 3, 7, 'incremental', 'sticky', '', false)",
        group,
        plane.shard(group),
    )
    plane.execute(
        "INSERT INTO committed_offset (group_name, topic_name, topic_id, partition, committed_offset,"
        " leader_epoch, metadata, version) SELECT %s, name, topic_id, n, 10 * n, -1, '', 1 FROM topic,"
        " generate_series(0, 3) AS n WHERE name = %s",
        group,
        topic,
    )
