"""This room refuses settings that are only safe on loopback, each with an id and a hint."""

from collections.abc import Sequence
from typing import Any

from django.apps import AppConfig
from django.conf import settings
from django.core.checks import CheckMessage, Error, Tags, Warning, register

LEAST_KEY_LENGTH = 32


@register(Tags.security)
def debug_stays_on_loopback(app_configs: Sequence[AppConfig] | None, **kwargs: Any) -> list[CheckMessage]:
    """DEBUG shows settings and tracebacks to whoever asks."""
    if not settings.DEBUG or settings.ON_LOOPBACK:
        return []
    return [
        Error(
            "MUSTER_DEBUG is on while this process can be reached from other machines.",
            hint="Unset MUSTER_DEBUG, or listen on 127.0.0.1 and allow only loopback names in ALLOWED_HOSTS.",
            id="muster.E001",
        )
    ]


@register(Tags.security)
def secret_key_is_own(app_configs: Sequence[AppConfig] | None, **kwargs: Any) -> list[CheckMessage]:
    """Whoever knows the key can forge sessions, and come in as a worker or a broker; the default is in the
    public source.
    """
    if not settings.ON_LOOPBACK:
        where = "this process can be reached from other machines"
    elif not settings.KEY_PROVES_NOBODY:
        where = (
            "workers and brokers prove by it who they are"
            " (MUSTER_KAFKA_SASL is on, or MUSTER_NODE_ADDRESS not on loopback)"
        )
    else:
        return []
    said = ""
    if settings.SECRET_KEY == settings.DEFAULT_SECRET_KEY:
        said = "is the public default"
    elif len(settings.SECRET_KEY) < LEAST_KEY_LENGTH:
        said = f"has {len(settings.SECRET_KEY)} characters and can be guessed"
    if not said:
        return []
    return [
        Error(
            f"SECRET_KEY {said} while {where}.",
            hint="Set SECRET_KEY, or SECRET_KEY_FILE to a file with at least 50 random characters.",
            id="muster.E002",
        )
    ]


@register(Tags.security)
def hosts_are_named(app_configs: Sequence[AppConfig] | None, **kwargs: Any) -> list[CheckMessage]:
    """A wildcard lets any Host header into links and redirects."""
    if "*" not in settings.ALLOWED_HOSTS:
        return []
    return [
        Error(
            "ALLOWED_HOSTS contains *.",
            hint="Name the hosts by which people reach this cluster, separated by commas.",
            id="muster.E003",
        )
    ]


@register(Tags.security)
def tls_is_in_front(app_configs: Sequence[AppConfig] | None, **kwargs: Any) -> list[CheckMessage]:
    """Cookies are marked Secure off loopback: without TLS nobody can log in, and tokens travel in clear."""
    if settings.ON_LOOPBACK or getattr(settings, "SECURE_PROXY_SSL_HEADER", None):
        return []
    return [
        Warning(
            "This process can be reached from other machines and no TLS proxy is declared.",
            hint="Put a TLS proxy in front, let it set X-Forwarded-Proto, and set MUSTER_BEHIND_TLS_PROXY=1.",
            id="muster.W001",
        )
    ]
