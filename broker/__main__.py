"""This room is the program `python -m broker`."""

import sys

from muster.kernel.lean_imports import leave_out_what_serves_nobody

if __name__ == "__main__":
    leave_out_what_serves_nobody()
    from broker.command import main

    sys.exit(main())
