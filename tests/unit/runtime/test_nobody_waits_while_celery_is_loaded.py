"""What publishing takes is loaded when a node starts: the first topic of a process waited for it."""

import os
import subprocess
import sys
import threading

from runtime.publishing import Publisher

SCRIPT = """
import sys

import django

django.setup()
import config.celery

config.celery.app.set_default()
from runtime.publishing import ask_celery, prepare_celery

prepare_celery()
before = set(sys.modules)
assert "kombu.transport.redis" in before, "what speaks to Redis is not loaded"
try:
    ask_celery("an item")
except Exception as error:
    print(type(error).__name__)
print(sorted(name for name in set(sys.modules) - before if name.startswith(("redis", "runtime"))))
"""


def test_the_first_item_finds_loaded_what_it_needs_though_no_redis_is_there() -> None:
    environment = {
        **os.environ,
        "DJANGO_SETTINGS_MODULE": "config.settings",
        "REDIS_URL": "redis://127.0.0.1:1/0",
        "MUSTER_TEST": "1",
    }
    told = subprocess.run(
        [sys.executable, "-c", SCRIPT], env=environment, capture_output=True, text=True, timeout=60
    )
    assert told.stdout.split() == ["OperationalError", "[]"], told.stdout + told.stderr


def test_a_thread_prepares_before_anything_is_published() -> None:
    prepared, sent = threading.Event(), threading.Event()
    in_time: list[bool] = []

    def send(_item_id: str) -> None:
        in_time.append(prepared.is_set())
        sent.set()

    publisher = Publisher(send, prepare=prepared.set)
    assert prepared.wait(10), "it is prepared without an item"
    publisher.publish("a")
    assert sent.wait(10)
    publisher.stop()
    assert in_time == [True]


def test_what_cannot_be_prepared_is_published_all_the_same() -> None:
    sent = threading.Event()

    def prepare() -> None:
        raise ValueError("no such transport")

    publisher = Publisher(lambda _item_id: sent.set(), prepare=prepare)
    publisher.publish("a")
    assert sent.wait(10)
    publisher.stop()
