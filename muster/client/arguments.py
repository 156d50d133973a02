"""This room refuses at once what an application asks for that can never work, and says what would."""

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final
from urllib.parse import urlsplit

from muster.client.securing import MECHANISMS, Security, trusting
from muster.kernel.security_protocols import SECURITY_PROTOCOLS
from muster.messages import codec
from muster.messages.errors import LocalMessageError, RemoteMessageError
from muster.messages.member import PATTERN_LENGTH_MAX, RegisterConsumerRequest, TopicCount

Subscription = str | re.Pattern[str]

_TOPIC_NAME: Final = re.compile(r"[A-Za-z0-9._-]{1,249}")
_TOKEN: Final = re.compile(r"[\x21-\x7e]+")
THREADS_MAX: Final = 1_000
LARGEST_OFFSET: Final = 2**63 - 1
_SCHEMES: Final = ("ws", "wss")


def checked_nodes(nodes: Sequence[str]) -> tuple[str, ...]:
    """The addresses of nodes. Raises ValueError unless each is a websocket address."""
    if isinstance(nodes, str | bytes):
        raise ValueError(f"nodes: a list of addresses is needed; write nodes=[{nodes!r}]")
    checked = tuple(nodes)
    if not checked:
        raise ValueError("nodes: at least one websocket address is needed, such as ws://127.0.0.1:9301")
    for address in checked:
        _check_node(address)
    return checked


def _check_node(address: object) -> None:
    if not isinstance(address, str):
        raise ValueError(f"nodes: {address!r} is no text")
    try:
        parts = urlsplit(address)
        host, port = parts.hostname, parts.port
    except ValueError as problem:
        raise ValueError(f"nodes: {address!r} is no address: {problem}") from None
    if parts.scheme not in _SCHEMES:
        said = f"it begins with {parts.scheme}://" if "://" in address else "it names no scheme"
        raise ValueError(f"nodes: {address!r}: {said}; a node's address begins with ws:// or wss://")
    if not host or port == 0 or parts.query or parts.fragment or re.search(r"\s", address):
        raise ValueError(f"nodes: {address!r} is no address; it looks like ws://host:port")


def checked_topics(topics: Iterable[Subscription] | Mapping[Subscription, int]) -> tuple[TopicCount, ...]:
    """The subscription. Raises ValueError for names that no topic can have, and numbers of threads."""
    if isinstance(topics, str | bytes | re.Pattern):
        raise ValueError(f"topics: a list of names or patterns is needed; write [{topics!r}]")
    pairs = topics.items() if isinstance(topics, Mapping) else [(topic, 1) for topic in topics]
    checked = tuple(_topic_count(topic, threads) for topic, threads in pairs)
    if not checked:
        raise ValueError("topics: at least one topic is needed")
    if len({(one.topic, one.is_pattern) for one in checked}) != len(checked):
        raise ValueError("topics: one of them is named twice")
    return checked


def _topic_count(topic: object, threads: object) -> TopicCount:
    if isinstance(threads, bool) or not isinstance(threads, int) or not 1 <= threads <= THREADS_MAX:
        raise ValueError(f"topics: {topic!r} is read by 1 to {THREADS_MAX} threads, not {threads!r}")
    if isinstance(topic, re.Pattern):
        if not isinstance(topic.pattern, str):
            raise ValueError(f"topics: the pattern {topic.pattern!r} matches bytes, names of topics are text")
        if not 1 <= len(topic.pattern) <= PATTERN_LENGTH_MAX:
            raise ValueError(f"topics: a pattern has 1 to {PATTERN_LENGTH_MAX} characters")
        return TopicCount(topic.pattern, threads, is_pattern=True)
    if not isinstance(topic, str):
        raise ValueError(f"topics: {topic!r} is neither a name nor a compiled pattern")
    if topic in (".", "..") or not _TOPIC_NAME.fullmatch(topic):
        raise ValueError(
            f"topics: no topic can be called {topic!r}: a name has 1 to 249 letters, digits, dots,"
            " underscores and hyphens (a pattern is written re.compile(...))"
        )
    return TopicCount(topic, threads)


def checked_token(token: str) -> str:
    """The access token. Raises ValueError for what no header can carry."""
    if not isinstance(token, str) or not _TOKEN.fullmatch(token):
        raise ValueError(
            "token: an access token is needed, one word;"
            " an administrator makes one with manage.py create_token"
        )
    return token


def checked_security(token: str, protocol: str | None, mechanism: str, ca_file: object) -> Security:
    """How brokers are spoken to. Raises ValueError for what can prove nothing, or trusts nobody."""
    if protocol is not None:
        one_of("security_protocol", protocol, SECURITY_PROTOCOLS)
    one_of("sasl_mechanism", mechanism, MECHANISMS)
    if ca_file is not None and not isinstance(ca_file, str | os.PathLike):
        raise ValueError(f"ca_file: the name of a PEM file is needed, not {ca_file!r}")
    path = None if ca_file is None else os.fsdecode(ca_file)
    if path is not None:
        try:
            trusting(path)
        except OSError as problem:
            raise ValueError(f"ca_file: {path!r} cannot be used: {problem}") from None
    return Security(protocol, token, mechanism, path)


def one_of(name: str, value: Any, allowed: Iterable[str]) -> None:
    """Raise ValueError unless `value` is one of these words."""
    words = list(allowed)
    if value not in words:
        listed = ", ".join(f'"{word}"' for word in words)
        raise ValueError(f"{name}: {value!r} is none of {listed}")


def at_least(name: str, value: Any, least: int) -> None:
    """Raise ValueError unless `value` is a whole number that large, and no larger than an offset can be."""
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise ValueError(f"{name}: a whole number of at least {least} is needed, not {value!r}")
    if value > LARGEST_OFFSET:
        raise ValueError(f"{name}: a whole number of at most {LARGEST_OFFSET} is needed, not {value!r}")


def flag(name: str, value: Any) -> None:
    """Raise ValueError unless `value` is True or False."""
    if not isinstance(value, bool):
        raise ValueError(f"{name}: True or False is needed, not {value!r}")


def words(name: str, value: Any) -> None:
    """Raise ValueError unless `value` is text that can name something."""
    if not isinstance(value, str) or not 1 <= len(value) <= 249 or "\x00" in value:
        raise ValueError(f"{name}: a text of 1 to 249 characters is needed, not {value!r}")


def registrable(request: RegisterConsumerRequest) -> None:
    """Raise ValueError if no coordinator would read it, however often it was said."""
    try:
        codec.decode_from_member(codec.encode(request))
    except (LocalMessageError, RemoteMessageError) as problem:
        raise ValueError(f"the consumer cannot register like this: {problem}") from problem


def listener(given: object, kind: type) -> None:
    """Raise ValueError unless it is a listener, or None."""
    if given is not None and not isinstance(given, kind):
        raise ValueError(
            f"listener: an instance of a class that extends {kind.__name__} is needed, not {given!r}"
        )
