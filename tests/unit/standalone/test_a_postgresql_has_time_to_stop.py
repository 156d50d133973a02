"""A PostgreSQL that is stopped alone is not killed: its backends would be in the way of the next one."""

from pathlib import Path

from standalone.processes import Child
from standalone.supervision import program_section


def test_it_is_waited_for_much_longer_than_others() -> None:
    waits = {
        role: int(
            program_section(Child(role, None, ("run",), Path("log")))
            .partition("stopwaitsecs = ")[2]
            .split()[0]
        )
        for role in ("postgres", "redis", "node")
    }
    assert waits["postgres"] >= 10 * max(waits["redis"], waits["node"])
