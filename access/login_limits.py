"""This room bounds how often strangers may try to come in; the audit counts, and is bounded with it."""

from datetime import timedelta

from django.db.models import Q, QuerySet
from django.db.models.functions import Now

from access.models import AccessEvent, Principal
from muster.kernel.addresses import network_of

WINDOW_MS = 300_000
FAILURES_OF_A_NAME = 5
FAILURES_OF_AN_ADDRESS = 20
SIGN_IN = "sign in"
SIGN_IN_BY_LINK = "sign in by link"


def network_counted(address: str) -> str:
    """What the audit notes of a failure beside its address: the network, of IPv6, by which it is counted."""
    network = network_of(address)
    return "" if network == address else network


def too_many_failures(name: str, address: str) -> bool:
    """True if this name from this address, or its /64 of IPv6, failed too often in the last five minutes.

    A name is counted together with its address: a stranger cannot lock somebody else out from afar. An
    address that failed too often with whatever names does not shut out the people who share it: only names
    that nobody has are then refused unasked, so that guessing costs no password hash and fills no audit.
    """
    failed = _failures(SIGN_IN, address)
    if failed.filter(name=name[:150]).count() >= FAILURES_OF_A_NAME:
        return True
    return over_its_bound(address) and not Principal.objects.filter(name=name, user__isnull=False).exists()


def over_its_bound(address: str) -> bool:
    """True if this address failed too often with whatever names in the last five minutes."""
    return _failures(SIGN_IN, address).count() >= FAILURES_OF_AN_ADDRESS


def enough_failed_links(address: str) -> bool:
    """True if the audit has enough of wrong links from this address: no further line says more.

    A right link signs in all the same: 256 random bits are not guessed.
    """
    return _failures(SIGN_IN_BY_LINK, address).count() >= FAILURES_OF_AN_ADDRESS


def _failures(action: str, address: str) -> QuerySet[AccessEvent]:
    network, window = network_of(address), timedelta(milliseconds=WINDOW_MS)
    of_network = Q(address=network)
    if network != address:
        # Else an address that is not known, and has no network, were everybody's whose network is not noted.
        of_network |= Q(detail=network)
    # What lies further ahead was before somebody set the clock back: it would shut people out until then.
    of_late = {"at__gt": Now() - window, "at__lt": Now() + window}
    return AccessEvent.objects.filter(of_network, action=action, allowed=False, **of_late)
