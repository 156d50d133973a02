"""This room gives replication tests somebody with a token at the REST door of this process."""

from typing import Any

from django.test import Client

Answer = Any


class Operator:
    """Somebody with a token, at the REST door of this process."""

    def __init__(self, token: str) -> None:
        self._client = Client(raise_request_exception=False)
        self._headers = {"Authorization": f"Bearer {token}"}

    def get(self, path: str) -> Answer:
        return self._client.get(_address(path), headers=self._headers)

    def tag(self, path: str) -> str:
        return str(self.get(path)["ETag"])

    def post(self, path: str, *, match: str | None = None, key: str | None = None, **body: object) -> Answer:
        """POST with a reason, unless the body says otherwise."""
        said = {"reason": "we test", **body}
        headers = self._with(match, key)
        return self._client.post(_address(path), said, content_type="application/json", headers=headers)

    def patch(self, path: str, *, match: str | None = None, key: str | None = None, **body: object) -> Answer:
        """PATCH with a reason, unless the body says otherwise."""
        said = {"reason": "we test", **body}
        headers = self._with(match, key)
        return self._client.patch(_address(path), said, content_type="application/json", headers=headers)

    def put(self, path: str, *, match: str | None = None, key: str | None = None, **body: object) -> Answer:
        """PUT with a reason, unless the body says otherwise."""
        said = {"reason": "we test", **body}
        headers = self._with(match, key)
        return self._client.put(_address(path), said, content_type="application/json", headers=headers)

    def delete(self, path: str, *, match: str | None = None, key: str | None = None) -> Answer:
        return self._client.delete(_address(path), headers=self._with(match, key))

    def _with(self, match: str | None, key: str | None) -> dict[str, str]:
        given = {"If-Match": match, "Idempotency-Key": key}
        return self._headers | {name: value for name, value in given.items() if value is not None}


def _address(path: str) -> str:
    return path if path.startswith("/") else f"/api/v1/{path}"
