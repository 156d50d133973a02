"""A process that others can reach does not run with DEBUG, the public key, or any host."""

import pytest
from django.conf import LazySettings
from django.core.checks import CheckMessage

from config import checks


def _ids(messages: list[CheckMessage]) -> list[str | None]:
    assert all(message.hint for message in messages)
    return [message.id for message in messages]


def _everything() -> list[CheckMessage]:
    return [
        *checks.debug_stays_on_loopback(None),
        *checks.secret_key_is_own(None),
        *checks.hosts_are_named(None),
        *checks.tls_is_in_front(None),
    ]


def test_on_loopback_the_defaults_are_good_enough(settings: LazySettings) -> None:
    settings.DEBUG = True
    settings.ON_LOOPBACK = True
    settings.SECRET_KEY = settings.DEFAULT_SECRET_KEY
    assert _everything() == []


def test_off_loopback_debug_and_the_public_key_are_errors(settings: LazySettings) -> None:
    settings.DEBUG = True
    settings.ON_LOOPBACK = False
    settings.SECRET_KEY = settings.DEFAULT_SECRET_KEY
    assert _ids(_everything()) == ["muster.E001", "muster.E002", "muster.W001"]


def test_on_loopback_too_nobody_proves_who_it_is_by_the_public_key(settings: LazySettings) -> None:
    settings.ON_LOOPBACK = True
    settings.KEY_PROVES_NOBODY = False
    settings.SECRET_KEY = settings.DEFAULT_SECRET_KEY
    assert _ids(_everything()) == ["muster.E002"]


def test_any_host_is_an_error_everywhere(settings: LazySettings) -> None:
    settings.ALLOWED_HOSTS = ["*"]
    assert _ids(checks.hosts_are_named(None)) == ["muster.E003"]


@pytest.mark.parametrize("proxy", [("HTTP_X_FORWARDED_PROTO", "https")])
def test_behind_a_declared_proxy_with_an_own_key_nothing_is_wrong(
    settings: LazySettings, proxy: tuple[str, str]
) -> None:
    settings.ON_LOOPBACK = False
    settings.SECRET_KEY = "x" * 50
    settings.SECURE_PROXY_SSL_HEADER = proxy
    assert _everything() == []
