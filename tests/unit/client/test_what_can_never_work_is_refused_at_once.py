"""An argument that can never work raises where it is given, in words that say what would work."""

import re
from typing import Any

import pytest

from muster import Consumer

GOOD: dict[str, Any] = {"group": "g", "topics": ["t"], "nodes": ["ws://one:1"], "token": "mst_"}
MANY = [f"{number:060}" for number in range(1_000)]


@pytest.mark.parametrize(
    ("wishes", "words"),
    [
        ({"nodes": "ws://one:1"}, "write nodes=['ws://one:1']"),
        ({"nodes": []}, "at least one websocket address"),
        ({"nodes": ["http://one:1"]}, "it begins with http://; a node's address begins with ws:// or wss://"),
        ({"nodes": ["one:1"]}, "it names no scheme"),
        ({"nodes": ["ws://"]}, "it looks like ws://host:port"),
        ({"nodes": ["ws://one:99999"]}, "is no address"),
        ({"nodes": [b"ws://one"]}, "is no text"),
        ({"topics": "a1"}, "write ['a1']"),
        ({"topics": re.compile("a.*")}, "a list of names or patterns"),
        ({"topics": []}, "at least one topic"),
        ({"topics": [b"a1"]}, "neither a name nor a compiled pattern"),
        ({"topics": ["a b/c"]}, "no topic can be called 'a b/c'"),
        ({"topics": [".."]}, "no topic can be called '..'"),
        ({"topics": ["t" * 250]}, "1 to 249"),
        ({"topics": ["t", "t"]}, "named twice"),
        ({"topics": [re.compile(b"a")]}, "matches bytes"),
        ({"topics": [re.compile("a" * 257)]}, "1 to 256 characters"),
        ({"topics": MANY}, "cannot register"),
        ({"topics": [*MANY, "t"]}, "cannot register"),
        ({"group": ""}, "group: a text of 1 to 249"),
        ({"group": "g" * 250}, "group: a text of 1 to 249"),
        ({"consumer_id": ""}, "consumer_id: a text"),
        ({"consumer_id": "a\x00"}, "consumer_id: a text"),
        ({"client_id": "c" * 250, "consumer_id": "ann"}, "client_id: a text"),
        ({"token": ""}, "create_token"),
        ({"token": "two words"}, "create_token"),
        ({"auto_offset_reset": "smallest"}, 'none of "earliest", "latest", "none"'),
        ({"auto_commit": "yes"}, "True or False"),
        ({"session_timeout_ms": 0}, "a whole number of at least 1"),
        ({"session_timeout_ms": 10.0}, "a whole number"),
        ({"session_timeout_ms": 2**31}, "cannot register"),
        ({"max_poll_interval_ms": -1}, "a whole number of at least 0"),
        ({"ready_timeout_ms": True}, "a whole number"),
        ({"max_batch_bytes": 0}, "a whole number of at least 1"),
    ],
    ids=str,
)
def test_it_is_said_at_once(wishes: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=re.escape(words)):
        Consumer(**{**GOOD, **wishes})


@pytest.mark.parametrize(
    "wishes",
    [
        {"nodes": ("wss://muster.example/behind/a/proxy",)},
        {"nodes": ["ws://[::1]:9301"]},
        {"topics": {"a": 1, "b": 2}.keys()},
        {"topics": [re.compile("flights-.*"), "a.b_c-d"]},
        {"auto_offset_reset": "none", "session_timeout_ms": 6_000},
    ],
    ids=str,
)
async def test_what_may_work_is_tried(wishes: dict[str, Any]) -> None:
    assert Consumer(**{**GOOD, **wishes}).state == "new"
