"""Ctrl-C while modules are loaded, in the first half second, ended `manage.py …` with a traceback."""

import builtins
from importlib import import_module
from typing import Any

import pytest


def test_who_gives_up_while_modules_are_loaded_sees_no_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    main, load = import_module("manage").main, builtins.__import__

    def interrupted(name: str, *more: Any) -> Any:
        if name == "kafkaserver.compiled":
            raise KeyboardInterrupt
        return load(name, *more)

    monkeypatch.setattr(builtins, "__import__", interrupted)
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 130
