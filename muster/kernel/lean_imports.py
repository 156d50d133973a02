"""This room keeps libraries that only tests or the command line need out of processes that serve.

kio, structlog and the REST framework import such a library wherever it is installed, and then a broker is
10 MB larger for nothing.
"""

import sys

OF_TESTS_ALONE = ("hypothesis", "requests")
NOT_FOR_SERVING = (*OF_TESTS_ALONE, "rich")


def leave_out_what_serves_nobody() -> None:
    """Let these libraries look absent to whatever is imported from now on."""
    for name in NOT_FOR_SERVING:
        # None there is what Python itself takes for "not installed".
        sys.modules.setdefault(name, None)  # type: ignore[arg-type]
