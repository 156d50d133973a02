"""This room asks the product's own REST door, as a script of an operator would."""

import logging
import time
from collections.abc import Callable, Iterator
from typing import Any
from uuid import uuid4

import httpx

SECONDS_A_CALL = 10.0
WRITES_TRIED = 6
# It tells each request; the demo asks five times a second while it waits.
logging.getLogger("httpx").setLevel(logging.WARNING)


class Rest:
    """The REST door of one stack. Methods raise httpx.HTTPError when it does not answer."""

    def __init__(self, address: str, token: str) -> None:
        self._client = httpx.Client(
            base_url=address,
            headers={"Authorization": f"Bearer {token}"},
            timeout=SECONDS_A_CALL,
            # No proxy of the environment leads to a door on this machine.
            trust_env=False,
        )

    def close(self) -> None:
        self._client.close()

    def group(self, group: str) -> dict[str, Any] | None:
        """The group with its members; None if there is none yet."""
        answer = self._client.get(f"groups/{group}")
        if answer.status_code == httpx.codes.NOT_FOUND:
            return None
        found: dict[str, Any] = answer.raise_for_status().json()
        return found

    def committed(self, group: str, topic: str) -> dict[int, int]:
        """The committed offset of each partition that has one."""
        return {row["partition"]: row["offset"] for row in self._items("offsets", group=group, topic=topic)}

    def partitions(self, topic: str) -> list[dict[str, Any]]:
        """The partitions of a topic: leader, replicas, ISR."""
        return list(self._items("partitions", topic=topic))

    def propose(self, **plan: Any) -> str:
        """Propose a plan; its address. Asked again without an answer it is the same plan."""
        key = {"Idempotency-Key": uuid4().hex}
        for number in range(WRITES_TRIED):
            answer = self._client.post("plans", json=plan, headers=key)
            if answer.status_code == httpx.codes.CREATED:
                return str(answer.headers["Location"]).rpartition("/")[2]
            if answer.status_code not in (httpx.codes.ACCEPTED, httpx.codes.SERVICE_UNAVAILABLE):
                break
            time.sleep(number)
        answer.raise_for_status()
        raise ValueError(f"no plan after {WRITES_TRIED} tries: {answer.text[:200]}")

    def plan(self, plan: str) -> dict[str, Any]:
        """A plan with its cost and its steps counted."""
        found: dict[str, Any] = self._client.get(f"plans/{plan}").raise_for_status().json()
        return found

    def change(self, plan: str, **change: Any) -> None:
        """Approve a plan as it is now, or run it."""
        tag = self._client.get(f"plans/{plan}").raise_for_status().headers["ETag"]
        self._client.post(f"plans/{plan}", json=change, headers={"If-Match": tag}).raise_for_status()

    def rebalances(self, group: str) -> list[dict[str, Any]]:
        """The rebalances of a group, oldest first: cause, length, partitions moved."""
        return list(reversed(list(self._items(f"rebalances/{group}"))))

    def turns(self, **filters: str) -> list[dict[str, Any]]:
        """Turns of the journal by `lane` or `key`, oldest first."""
        return list(reversed(list(self._items("journal", limit="500", **filters))))

    def _items(self, path: str, **filters: str) -> Iterator[dict[str, Any]]:
        parameters = dict(filters)
        while True:
            page = self._client.get(path, params=parameters).raise_for_status().json()
            yield from page["items"]
            if not page["next"]:
                return
            parameters["cursor"] = page["next"]


def wait_until(holds: Callable[[], bool], patience_seconds: float) -> bool:
    """Ask five times a second until it is true or the patience ends; a door that is down counts as false."""
    end = time.monotonic() + patience_seconds
    while True:
        try:
            if holds():
                return True
        except httpx.HTTPError:
            pass
        if time.monotonic() >= end:
            return False
        time.sleep(0.2)
