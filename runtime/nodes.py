"""This room gives each node its number: by name, once, at its first start; it is never given again.

Brokers have 1 to 9,999 and nodes what follows, because clients tell both apart by one number (design 8a).
"""

from typing import Final

from psycopg.errors import SequenceGeneratorLimitExceeded

from runtime.ports import Connection

FIRST_NODE_ID: Final = 10_001
LAST_NODE_ID: Final = 2**31 - 1


class NoNumberLeft(Exception):
    """No node can begin under this name; the text says under which."""


_KNOWN = "SELECT node_id FROM node_identity WHERE name = %s"
# The numbers come from a sequence, which goes on from where it was even if a row were lost.
_GIVE = """
INSERT INTO node_identity (name, given_at)
SELECT %(name)s::text, clock_timestamp()
WHERE NOT EXISTS (SELECT FROM node_identity WHERE name = %(name)s::text)
ON CONFLICT (name) DO NOTHING
"""


_SOME_NAMES = "SELECT name FROM node_identity ORDER BY given_at DESC LIMIT 20"
_LIFT = """
SELECT setval(numbers, least(coalesce(pg_sequence_last_value(numbers) + 1, %(first)s) + %(by)s, %(last)s))
FROM CAST(pg_get_serial_sequence('node_identity', 'node_id') AS regclass) AS numbers
"""


def lift(connection: Connection, by: int) -> None:
    """Numbers that a lost primary may have given are not given again; who has one here keeps it.

    Behind the last one there is none, for a node that was never seen; the others go on.
    """
    connection.execute(_LIFT, {"by": by, "first": FIRST_NODE_ID, "last": LAST_NODE_ID})


def identity(connection: Connection, name: str) -> int:
    """The number of the node `name`; a name that was never seen gets the next one.

    Raises NoNumberLeft where lifts have used them up.
    """
    known = connection.execute(_KNOWN, (name,)).fetchone()
    if known is None:
        try:
            connection.execute(_GIVE, {"name": name})
        except SequenceGeneratorLimitExceeded as error:
            names = [row[0] for row in connection.execute(_SOME_NAMES).fetchall()]
            raise NoNumberLeft(
                f"No number is left for a node that this cluster never saw, such as {name!r}: lifts have used"
                f" up all to {LAST_NODE_ID:,}. Start it under a name that has one and that no other node runs"
                f" under: {', '.join(names) or 'there is none'}."
            ) from error
        known = connection.execute(_KNOWN, (name,)).fetchone()
    return int(known[0])
