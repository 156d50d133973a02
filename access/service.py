"""This room does what access can do: make, prove and take back tokens, and give out one-time links.

How long they are good is judged by the database's one clock: hosts' own clocks differ, and are set.
"""

import base64
import hashlib
import json
import secrets
from collections.abc import Iterable, Sequence
from datetime import timedelta
from hmac import compare_digest
from typing import Any

from django.contrib.auth import get_user_model
from django.contrib.auth.models import User
from django.db import DatabaseError, IntegrityError, transaction
from django.db.models import BooleanField, ExpressionWrapper, Q, QuerySet
from django.db.models.functions import Now

from access import sessions, workers
from access.grants import ROLE_OPERATIONS, Operation, Role, role_may
from access.models import NAME_LENGTH, AccessEvent, ApiToken, LoginLink, Principal
from access.tokens import Caller, KnownToken, TokenMap, bearer, new_token
from muster.kernel.scopes import Scope
from muster.kernel.scram import HASHES, verifier_of
from muster.kernel.token_text import SECRET_BYTES, read_token
from muster.messages.link.callers import CallerRow, ScramRow
from runtime import wake
from runtime.ports import is_unable_behind

__all__ = [
    "BadName",
    "Caller",
    "LockedOut",
    "TokenMap",
    "TokenNameTaken",
    "bearer",
    "bounds_of",
    "create_token",
    "create_user",
    "is_locked_out",
    "kafka_callers",
    "lives_one_of",
    "make_login_link",
    "may_enter",
    "person_of_link",
    "record",
    "revoke_token",
    "role_of",
    "signed_out",
    "token_map",
    "use_login_link",
    "user_may",
    "verify",
]

LOGIN_LINK_MS = 600_000
_LAST_USED_EVERY_MS = 60_000
_IS_OVER = ExpressionWrapper(Q(expires_at__lte=Now()), BooleanField())
_USE_IS_OLD = Q(last_used_at__isnull=True) | Q(
    last_used_at__lt=Now() - timedelta(milliseconds=_LAST_USED_EVERY_MS)
)
_SALT_BYTES = 16

_LIVE = """
    FROM access_apitoken token JOIN access_principal principal ON principal.id = token.principal_id
    WHERE token.revoked_at IS NULL AND NOT principal.disabled
      AND (token.expires_at IS NULL OR token.expires_at > now())
"""
_LIVING_TOKENS = f"""
    SELECT token.prefix, token.digest, token.role, token.name, principal.name, token.topics, token.groups,
           token.scram::text {_LIVE}
"""
_LIVES_ONE_OF = f"""
    SELECT EXISTS (
        SELECT {_LIVE} AND (token.prefix = ANY (%s) OR token.name = ANY (%s)) AND token.prefix <> ALL (%s)
    )
"""


class TokenNameTaken(Exception):
    """A living token of this name exists and `replace` was not asked for."""


class BadName(ValueError):
    """Nobody can be called so: what a script leaves empty by mistake would become somebody without a name."""


class LockedOut(Exception):
    """Every door is shut to the person of this name: no link would open one."""


def create_token(
    name: str,
    role: Role,
    *,
    good_for: timedelta | None = None,
    replace: bool = False,
    topics: Sequence[str] = (),
    groups: Sequence[str] = (),
) -> str:
    """Give the principal `name` a token with `role` and return its text, which is not stored anywhere.

    `good_for`: how long from now on; None: until it is taken back. `replace` takes back an older token of the
    same name in the same transaction. `topics` and `groups` bound what it is good for (Scope.of). Kafka
    clients show it as the password of the user `name`.
    Raises TokenNameTaken if one lives and `replace` is False, or if it is that of our own workers; BadScope,
    BadName.
    """
    if name == workers.NAME:
        raise TokenNameTaken(name)
    _check_name(name)
    Scope.of(topics), Scope.of(groups)
    made = new_token()
    try:
        with transaction.atomic():
            principal, _ = Principal.objects.get_or_create(name=name, defaults={"role": role.value})
            if replace:
                ApiToken.objects.filter(name=name, revoked_at__isnull=True).update(revoked_at=Now())
            ApiToken.objects.create(
                principal=principal,
                name=name,
                prefix=made.prefix,
                digest=made.digest,
                role=role.value,
                expires_at=None if good_for is None else Now() + good_for,
                topics=list(topics),
                groups=list(groups),
                scram=_scram_of(made.text),
            )
            record("token created", name, allowed=True, detail=f"{role.value}, prefix {made.prefix}")
    except IntegrityError as error:
        raise TokenNameTaken(name) from error
    wake.notify("tokens")
    return made.text


def bounds_of(name: str) -> dict[str, list[str]] | None:
    """Topics and groups that the living token called `name` is good for; an empty list: for all of them.

    None: no token of that name lives.
    """
    token = ApiToken.objects.filter(name=name, revoked_at__isnull=True).first()
    return {"topics": list(token.topics), "groups": list(token.groups)} if token is not None else None


def revoke_token(name: str) -> int:
    """Take back the living token called `name`; returns how many were living (0 or 1)."""
    with transaction.atomic():
        count = ApiToken.objects.filter(name=name, revoked_at__isnull=True).update(revoked_at=Now())
        if count:
            record("token revoked", name, allowed=True)
    wake.notify("tokens")
    return count


def verify(presented: str) -> Caller | None:
    """The caller whose token `presented` is; None if unknown, expired, revoked or its principal disabled."""
    read = read_token(presented)
    if read is None:
        return None
    prefix, digest = read
    tokens = ApiToken.objects.select_related("principal").annotate(
        is_over=_IS_OVER, use_is_old=ExpressionWrapper(_USE_IS_OLD, BooleanField())
    )
    token = tokens.filter(prefix=prefix).first()
    same = compare_digest(bytes(token.digest) if token else bytes(32), digest)
    if token is None or not same or token.is_over or token.revoked_at is not None or token.principal.disabled:
        return None
    # Written at most once a minute, and not waited for by a second request at the same moment.
    if token.use_is_old:
        try:
            ApiToken.objects.filter(_USE_IS_OLD, pk=token.pk).update(last_used_at=Now())
        except DatabaseError as error:
            # A database that has no room, or only reads, keeps nobody from looking: it is noted later.
            if not is_unable_behind(error):
                raise
    return Caller(
        token.principal.name, Role(token.role), token.name, Scope.of(token.topics), Scope.of(token.groups)
    )


def token_map(connection: Any) -> TokenMap:
    """Every living token, read over a psycopg connection; the node reads anew on `tokens` and every 10 s."""
    with connection.cursor() as cursor:
        cursor.execute(_LIVING_TOKENS)
        rows = cursor.fetchall()
    return TokenMap(
        {
            prefix: KnownToken(
                bytes(digest),
                Caller(principal, Role(role), name, Scope.of(topics), Scope.of(groups)),
            )
            for prefix, digest, role, name, principal, topics, groups, _ in rows
        }
    )


def lives_one_of(connection: Any, names: Iterable[str], known: Iterable[str] = ()) -> bool:
    """Whether some living token has one of these prefixes or names; by their indexes, over psycopg.

    `known`: prefixes of those that do not count.
    """
    wanted = list(names)
    with connection.cursor() as cursor:
        (found,) = cursor.execute(_LIVES_ONE_OF, (wanted, wanted, list(known))).fetchone()
    return bool(found)


def kafka_callers(connection: Any) -> tuple[CallerRow, ...]:
    """Everybody who may come in at a Kafka door, read over a psycopg connection, sorted by name."""
    with connection.cursor() as cursor:
        cursor.execute(_LIVING_TOKENS)
        rows = cursor.fetchall()
    return tuple(
        CallerRow(
            name=name,
            principal=principal,
            operations=tuple(sorted(ROLE_OPERATIONS[Role(role)])),
            prefix=prefix,
            digest=bytes(digest),
            topics=tuple(topics),
            groups=tuple(groups),
            scram=tuple(
                ScramRow(
                    mechanism=mechanism,
                    salt=base64.b64decode(one["salt"]),
                    iterations=one["iterations"],
                    stored_key=base64.b64decode(one["stored_key"]),
                    server_key=base64.b64decode(one["server_key"]),
                )
                for mechanism, one in sorted(json.loads(scram or "{}").items())
            ),
        )
        for prefix, digest, role, name, principal, topics, groups, scram in sorted(
            rows, key=lambda row: row[3]
        )
    )


def _scram_of(secret: str) -> dict[str, dict[str, Any]]:
    """What proves `secret` by each mechanism, as JSON."""
    stored: dict[str, dict[str, Any]] = {}
    for mechanism in HASHES:
        verifier = verifier_of(mechanism, secret, secrets.token_bytes(_SALT_BYTES))
        stored[mechanism] = {
            "salt": base64.b64encode(verifier.salt).decode(),
            "iterations": verifier.iterations,
            "stored_key": base64.b64encode(verifier.stored_key).decode(),
            "server_key": base64.b64encode(verifier.server_key).decode(),
        }
    return stored


def role_of(user: Any) -> Role | None:
    """The role of a signed-in person; a superuser without a principal is an admin; None: no role."""
    if not getattr(user, "is_active", False):
        return None
    principal = Principal.objects.filter(user=user).first()
    if principal is None:
        return Role.ADMIN if user.is_superuser else None
    return None if principal.disabled else Role(principal.role)


def user_may(user: Any, operation: Operation) -> bool:
    """True if the signed-in person's role includes `operation`."""
    role = role_of(user)
    return role is not None and role_may(role, operation)


def create_user(name: str, role: Role, password: str | None) -> User:
    """Make the person `name` or give them this role; without a password only links sign them in.

    Raises BadName.
    """
    _check_name(name)
    with transaction.atomic():
        user, made = get_user_model().objects.get_or_create(username=name)
        if password is not None:
            user.set_password(password)
        elif made:
            user.set_unusable_password()
        # Django's admin asks for staff at its door; what it shows is decided by the role.
        user.is_staff = True
        user.save()
        Principal.objects.update_or_create(name=name, defaults={"role": role.value, "user": user})
        record("user made" if made else "user changed", name, allowed=True, detail=role.value)
    wake.notify(sessions.WAKE_NAME, name)
    return user


def may_enter(name: str, *, allowed: bool) -> bool:
    """Shut every door to the principal `name`, pages and tokens alike, or open them again; False: unknown.

    A page that is open notices within ten seconds, a node with the next wake-up.
    """
    with transaction.atomic():
        found = Principal.objects.filter(name=name).update(disabled=not allowed)
        if found:
            record("let in again" if allowed else "locked out", name, allowed=True)
    wake.notify("tokens")
    wake.notify(sessions.WAKE_NAME, name)
    return bool(found)


def is_locked_out(name: str) -> bool:
    """Whether every door is shut to the principal `name`."""
    return Principal.objects.filter(name=name, disabled=True).exists()


@transaction.atomic
def make_login_link(name: str, role: Role) -> tuple[str, bool]:
    """A one-time secret that signs in the person `name` for ten minutes, and whether they are new: then they
    are made with `role`. Raises LockedOut, BadName; then nobody is made.
    """
    known = get_user_model().objects.filter(username=name).first()
    user = known or create_user(name, role, None)
    if role_of(user) is None:
        raise LockedOut(name)
    secret = secrets.token_urlsafe(SECRET_BYTES)
    # Those of the future are of before the clock was set back, and would open again when it gets there.
    of_another_day = Q(expires_at__lt=Now() - timedelta(days=1)) | Q(created_at__gt=Now())
    LoginLink.objects.filter(of_another_day).delete()
    expires_at = Now() + timedelta(milliseconds=LOGIN_LINK_MS)
    LoginLink.objects.create(user=user, digest=_link_digest(secret), expires_at=expires_at)
    record("link made", name, allowed=True)
    return secret, known is None


def signed_out(name: str, address: str) -> None:
    """Write down that the session of `name` was ended by its person; other pages of it are closed."""
    record("sign out", name, allowed=True, address=address)
    wake.notify(sessions.WAKE_NAME, name)


def person_of_link(secret: str) -> str | None:
    """Whom `secret` would sign in; None if it is unknown, used or older than ten minutes. Uses nothing up."""
    found = _open_links(secret).select_related("user").first()
    return found.user.get_username() if found and role_of(found.user) else None


def use_login_link(secret: str) -> User | None:
    """The person whom `secret` signs in, once; None if it is unknown, used or older than ten minutes."""
    if not _open_links(secret).update(used_at=Now()):
        return None
    user = LoginLink.objects.select_related("user").get(digest=_link_digest(secret)).user
    return user if user.is_active else None


def record(action: str, name: str, *, allowed: bool, address: str = "", detail: str = "") -> None:
    """Write one line of the audit of access."""
    AccessEvent.objects.create(
        action=action, name=name[:NAME_LENGTH], address=address[:64], allowed=allowed, detail=detail[:200]
    )


def _check_name(name: str) -> None:
    if not name.strip() or len(name) > NAME_LENGTH:
        raise BadName(f"{name!r} is no name: it has 1 to {NAME_LENGTH} characters, and not only spaces")


def _open_links(secret: str) -> QuerySet[LoginLink]:
    now_is_within = {"created_at__lte": Now(), "expires_at__gt": Now()}
    return LoginLink.objects.filter(digest=_link_digest(secret), used_at__isnull=True, **now_is_within)


def _link_digest(secret: str) -> bytes:
    return hashlib.sha256(secret.encode()).digest()
