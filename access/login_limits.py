"""This room bounds how often a wrong password may be tried; the audit is the counter."""

from datetime import timedelta

from django.utils import timezone

from access.models import AccessEvent

WINDOW_MS = 300_000
FAILURES_OF_A_NAME = 5
FAILURES_OF_AN_ADDRESS = 20
SIGN_IN = "sign in"


def too_many_failures(name: str, address: str) -> bool:
    """True if this name from this address, or this address alone, failed too often in the last five minutes.

    A name is counted together with its address: a stranger cannot lock somebody else out from afar.
    """
    since = timezone.now() - timedelta(milliseconds=WINDOW_MS)
    failed = AccessEvent.objects.filter(action=SIGN_IN, allowed=False, at__gt=since, address=address)
    return (
        failed.filter(name=name[:150]).count() >= FAILURES_OF_A_NAME
        or failed.count() >= FAILURES_OF_AN_ADDRESS
    )
