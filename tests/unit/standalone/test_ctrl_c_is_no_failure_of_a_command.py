"""Ctrl-C while modules are loaded, in the first half second, ended `manage.py …` with a traceback."""

import builtins
from typing import Any

import pytest

import manage


def test_who_gives_up_while_modules_are_loaded_sees_no_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    load = builtins.__import__

    def interrupted(name: str, *more: Any) -> Any:
        if name == "kafkaserver.compiled":
            raise KeyboardInterrupt
        return load(name, *more)

    monkeypatch.setattr(builtins, "__import__", interrupted)
    with pytest.raises(SystemExit) as ended:
        manage.main()
    assert ended.value.code == 130
