"""This room keeps libraries that only tests need out of processes that serve.

kio, structlog and the REST framework import such a library wherever it is installed, and then a broker is
10 MB larger for nothing; where only `requirements.txt` is installed they are not there.
"""

import sys

OF_TESTS_ALONE = ("hypothesis", "rich", "requests")


def leave_out_what_only_tests_need() -> None:
    """Let these libraries look absent to whatever is imported from now on."""
    for name in OF_TESTS_ALONE:
        # None there is what Python itself takes for "not installed".
        sys.modules.setdefault(name, None)  # type: ignore[arg-type]
