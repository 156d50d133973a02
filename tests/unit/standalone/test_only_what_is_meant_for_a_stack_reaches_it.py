"""A shell that was set up for another program starts the same stack as an empty one."""

from pathlib import Path

import pytest

from standalone.stack import Stack
from standalone.surroundings import STACK_COMMANDS, keep_what_reaches_a_stack

ANOTHER_PROGRAMS = {
    "DATABASE_URL": "postgresql://elsewhere/production",
    "DATABASE_URL_FILE": "/run/secrets/production",
    "DATABASE_DIRECT_URL": "mysql://elsewhere/production",
    "REDIS_URL": "redis://elsewhere/0",
    "SECRET_KEY": "theirs",
    "ALLOWED_HOSTS": "shop.example",
    "DJANGO_SETTINGS_MODULE": "shop.settings",
    "CELERY_BROKER_URL": "redis://elsewhere/1",
    "PGOPTIONS": "-c search_path=shop",
    "WEB_CONCURRENCY": "8",
    "FORWARDED_ALLOW_IPS": "*",
}


def test_the_process_that_starts_it_forgets_the_rest() -> None:
    shell = {**ANOTHER_PROGRAMS, "HOME": "/root", "LC_ALL": "C", "BROKERS": "2", "MUSTER_LOG_LEVEL": "DEBUG"}
    keep_what_reaches_a_stack(shell)
    assert shell == {"HOME": "/root", "LC_ALL": "C", "BROKERS": "2", "MUSTER_LOG_LEVEL": "DEBUG"}


def test_its_processes_never_see_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name, value in ANOTHER_PROGRAMS.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("MUSTER_CLUSTER_NAME", "aero")
    seen = Stack(tmp_path, brokers=1)._environment()
    assert not {name: value for name, value in seen.items() if ANOTHER_PROGRAMS.get(name) == value}
    assert seen["MUSTER_CLUSTER_NAME"] == "aero"
    assert seen["TMPDIR"] == str(tmp_path / "tmp")


def test_every_command_on_a_stack_is_known() -> None:
    """`manage.py` forgets for these; the command that prepares runs inside of one of them."""
    from django.core.management import get_commands

    ours = {name for name, app in get_commands().items() if app == "standalone"}
    assert ours - {"prepare_cluster"} == STACK_COMMANDS
