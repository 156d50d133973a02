"""A kill -9 of who does an item leaves a claim that can be taken back, or a result that can be adopted."""

import os
import subprocess
import sys

import pytest

from runtime import work
from runtime.postgres import PostgresLink, open_connection
from tests.integration.runtime.conftest import ROOT, Truth

KIND = "tests.echo"
DO_IT = """
import sys
from runtime import work
from runtime.postgres import PostgresLink, open_connection
work.register("tests.echo", "tests.integration.runtime.test_a_worker_dies_around_its_work:echo")
link = PostgresLink(open_connection(sys.argv[1], "muster-test-worker"))
print(work.perform(link, sys.argv[2], "ann") is not None)
"""


def echo(connection: object, item: work.WorkRow) -> object:
    return lambda: {"key": item.key}


def do(url: str, item_id: str, failpoints: str = "") -> int:
    environment = os.environ | {"MUSTER_TEST": "1", "MUSTER_FAILPOINTS": failpoints}
    command = [sys.executable, "-c", DO_IT, url, item_id]
    return subprocess.run(
        command, cwd=ROOT, env=environment, stdout=subprocess.DEVNULL, timeout=60
    ).returncode


@pytest.mark.parametrize(
    ("step", "state"), [("work.claimed", "claimed"), ("work.computed", "claimed"), ("work.finished", "done")]
)
def test_the_item_is_done_in_the_end(truth: Truth, fresh_database: str, step: str, state: str) -> None:
    link = PostgresLink(open_connection(fresh_database, "muster-test"))
    item = link.transaction(lambda connection: work.offer(connection, KIND, "orders", None, {}, "lane"))
    assert do(fresh_database, item, f"{step}=exit") == -9
    [(found, claim)] = truth.rows("SELECT state, claim_epoch FROM work_item")
    assert (found, claim) == (state, 1)
    if state == "claimed":
        assert link.transaction(lambda connection: connection.work_table.reclaim(item, claim))
        assert do(fresh_database, item) == 0
    [done] = link.transaction(lambda connection: work.finished(connection, KIND, ["orders"]))
    assert (done.result, done.error) == ({"key": "orders"}, "")
    link.close()
