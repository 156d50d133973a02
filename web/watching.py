"""This room says which fingerprint belongs to which page, and whose session a handshake carries."""

from collections.abc import Mapping
from http.cookies import CookieError, SimpleCookie
from importlib import import_module
from typing import Any

from asgiref.sync import sync_to_async
from django.conf import settings
from django.contrib.auth import get_user
from django.db import close_old_connections
from django.http import HttpRequest
from django.http.request import validate_host

import controller.queries
import groups.queries
from access.grants import Operation
from access.service import user_may

GROUP = "group "
"""A page about one group watches `group <name>`."""

OVERVIEW, GROUPS, CLUSTER = "overview", "groups", "cluster"


@sync_to_async
def fingerprints(watched: frozenset[str]) -> Mapping[str, str]:
    """The fingerprint of each watched page, read in a thread, with at most three statements."""
    close_old_connections()
    found: dict[str, str] = {}
    cluster = controller.queries.fingerprint() if watched & {OVERVIEW, GROUPS, CLUSTER} else ""
    listed = groups.queries.fingerprint() if watched & {OVERVIEW, GROUPS} else ""
    for key, value in ((OVERVIEW, cluster + listed), (GROUPS, cluster + listed), (CLUSTER, cluster)):
        if key in watched:
            found[key] = value
    names = [key.removeprefix(GROUP) for key in watched if key.startswith(GROUP)]
    if names:
        found |= {GROUP + name: value for name, value in groups.queries.fingerprints(names).items()}
    return found


@sync_to_async
def person_of(scope: Mapping[str, Any]) -> str | None:
    """The name of the signed-in person of a handshake who may view; None for anybody else."""
    close_old_connections()
    headers = {
        name: value.decode("latin-1") for name, value in scope["headers"] if name in (b"cookie", b"host")
    }
    host = headers.get(b"host", "").rsplit(":", 1)[0]
    if not validate_host(host, settings.ALLOWED_HOSTS):
        return None
    try:
        cookie = SimpleCookie(headers.get(b"cookie", "")).get(settings.SESSION_COOKIE_NAME)
    except CookieError:
        return None
    if cookie is None:
        return None
    request = HttpRequest()
    request.session = import_module(settings.SESSION_ENGINE).SessionStore(cookie.value)
    user = get_user(request)
    return user.get_username() if user.is_authenticated and user_may(user, Operation.VIEW) else None
