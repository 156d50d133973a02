"""This room says from which address a request came, for the audit and for the bounds on strangers."""

from ipaddress import ip_address
from typing import Any

from django.conf import settings


def address_of(request: Any) -> str:
    """The address of whoever asks, of a Django or a REST request.

    Behind our TLS proxy (MUSTER_BEHIND_TLS_PROXY) it is the last one in X-Forwarded-For: the proxy wrote
    that one; what stands before it is whatever the client liked to say. Else the header is not believed.
    """
    peer = str(request.META.get("REMOTE_ADDR") or "")
    if not getattr(settings, "SECURE_PROXY_SSL_HEADER", None):
        return peer
    stated = str(request.META.get("HTTP_X_FORWARDED_FOR", "")).rpartition(",")[2].strip()
    try:
        return str(ip_address(stated))
    except ValueError:
        return peer


def strangers_per_address() -> int:
    """How many connections of one address may be half open at an HTTP door; 0: any number, as all come
    from our proxy.
    """
    return 0 if getattr(settings, "SECURE_PROXY_SSL_HEADER", None) else settings.MUSTER_STRANGERS_PER_ADDRESS
