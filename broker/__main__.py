"""This room is the program `python -m broker`."""

import sys

from muster.kernel.lean_imports import leave_out_what_only_tests_need

if __name__ == "__main__":
    leave_out_what_only_tests_need()
    from broker.command import main

    sys.exit(main())
