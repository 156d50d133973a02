"""Old journal entries go in batches; the last one of each lane stays, because the next number follows it."""

import uuid

from runtime import journal
from runtime.database import Held, JournalRow
from tests.conformance.databases import BreakablePostgres


def test_the_last_entry_of_a_lane_stays_however_old(fresh_database: str) -> None:
    breakable = BreakablePostgres(fresh_database)
    link = breakable.direct()
    for lane, entries in (("coordinator/0", 5), ("coordinator/1", 1)):
        link.take(lane, 0, "aaaaaaaaaaaaaaaa")
        for seq in range(1, entries + 1):
            row = JournalRow(lane, seq, uuid.uuid4(), "node-1", "orders", "added", {}, [])
            link.turn(Held(lane, 1), lambda connection: None, row)
    link.call(lambda connection: connection.execute("UPDATE journal SET at = now() - interval '40 days'"))
    link.call(lambda connection: connection.execute("UPDATE journal SET at = now() WHERE seq = 4"))

    assert link.transaction(lambda connection: journal.forget(connection, rows=2)) == 2
    assert link.transaction(lambda connection: journal.forget(connection, rows=2)) == 1
    assert link.transaction(lambda connection: journal.forget(connection, rows=2)) == 0
    left = link.call(
        lambda connection: connection.execute("SELECT lane, seq FROM journal ORDER BY lane, seq").fetchall()
    )
    assert left == [("coordinator/0", 4), ("coordinator/0", 5), ("coordinator/1", 1)]
    assert link.last_seq("coordinator/0") == 5
    breakable.close()
