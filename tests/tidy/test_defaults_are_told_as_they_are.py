"""`docs/sdk.md` tells the defaults that a Consumer has."""

import inspect
import re

from muster import Consumer
from tests.tidy.sources import ROOT

MIB = 1024 * 1024


def test_every_default_of_a_consumer_is_told_as_it_is() -> None:
    page = (ROOT / "docs" / "sdk.md").read_text(encoding="utf-8")
    told = dict(re.findall(r"^\| `(\w+)` \| ([^|]*?) \|", page, re.MULTILINE))
    parameters = inspect.signature(Consumer).parameters
    options = {name: told[name] for name in told if name in parameters and told[name]}
    assert {"session_timeout_ms", "max_poll_interval_ms", "max_batch_bytes"} <= options.keys()
    assert options == {name: _written(parameters[name].default) for name in options}


def _written(default: object) -> str:
    """As the page writes it: None stands for a consumer id of its own making."""
    if isinstance(default, bool):
        return str(default)
    if default is None:
        return "random"
    if isinstance(default, int) and default and default % MIB == 0:
        return f"{default // MIB} MiB"
    return f"{default:,}" if isinstance(default, int) else f'`"{default}"`'
