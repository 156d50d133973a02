"""This room is the program of a process that makes one pass of compaction, and ends with the broker.

It reads its task, one line, from a pipe, and writes what it did, a line for each file, to another.
"""

import os
import sys
import threading

from kafkaserver.compiled import use_what_is_compiled
from muster.kernel.lean_imports import leave_out_what_serves_nobody

NICER = 5
"""Whoever serves clients goes first."""


def main() -> None:
    """Do the one task; what goes wrong is said in the broker, which logs it."""
    leave_out_what_serves_nobody()
    use_what_is_compiled(os.environ)
    from broker.compactor_lines import Failed, Looked, Wrote, decode_task, encode
    from broker.log.compaction import LastOffsets, compacted
    from muster.kafkawire.errors import KafkaWireError

    os.nice(NICER)
    line = sys.stdin.buffer.readline()
    if not line.endswith(b"\n"):
        return
    task = decode_task(line)
    threading.Thread(target=_end_with_the_broker, daemon=True).start()

    def say(what: Looked | Wrote | Failed) -> None:
        sys.stdout.buffer.write(encode(what) + b"\n")
        sys.stdout.buffer.flush()

    try:
        latest = LastOffsets(task, gives_way=False)
        say(Looked(latest.end_offset, len(latest), latest.unreadable))
        for cleaned in compacted(task, latest):
            say(Wrote(cleaned))
    except OSError as error:
        say(Failed(error.errno or 0, str(error)))
    except (KafkaWireError, ValueError) as error:
        say(Failed(None, str(error)))


def _end_with_the_broker() -> None:
    # Not by the buffered reader: the interpreter waits for its lock when the program ends.
    while os.read(sys.stdin.fileno(), 1):
        pass
    os._exit(1)


if __name__ == "__main__":
    main()
