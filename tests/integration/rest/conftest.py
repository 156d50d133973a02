"""This room gives REST tests a client that speaks with a token."""

from collections.abc import Iterator
from typing import Any

import pytest
from django.test import Client

from access.grants import Role
from access.rest.authentication import living_tokens
from access.rest.throttling import requests_of_tokens, wrong_tokens
from access.service import create_token
from groups import standing


class Caller:
    """Asks REST addresses with one token, or with none."""

    def __init__(self, token: str | None) -> None:
        self._client = Client(raise_request_exception=False)
        self._headers = {"Authorization": f"Bearer {token}"} if token else {}

    def get(self, path: str, **headers: str) -> Any:
        """The answer to GET /api/v1/<path>."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return self._client.get(f"/api/v1/{path}", headers={**self._headers, **named})

    def send(self, method: str, path: str) -> Any:
        """The answer to another method."""
        return self._client.generic(method, f"/api/v1/{path}", headers=self._headers)


@pytest.fixture(autouse=True)
def nobody_is_throttled_by_the_test_before() -> Iterator[None]:
    """The bounds count in this process."""
    for kept in (requests_of_tokens, wrong_tokens, living_tokens):
        kept.forget()
    yield
    for kept in (requests_of_tokens, wrong_tokens, living_tokens):
        kept.forget()


@pytest.fixture(autouse=True)
def forget_standing() -> None:
    """What the test before read is not told in this one: its rows are gone, whatever they add up to."""
    standing.forget()


@pytest.fixture(autouse=True)
def nobody_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """No controller runs here: whoever asks one need not wait to hear that it does not answer."""
    monkeypatch.setattr("runtime.asking.WAIT_S", 0.0)


@pytest.fixture
def viewer(db: None) -> Caller:
    """A program that may view."""
    return Caller(create_token("viewer", Role.VIEWER))


@pytest.fixture
def stranger(db: None) -> Caller:
    """Somebody without a token."""
    return Caller(None)
