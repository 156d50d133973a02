"""This room finds out until when a certificate is good, and words what is wrong with its end.

The ssl module tells that of a peer alone: so the certificate is shown, in memory, to a client of our own.
"""

import ssl
from collections.abc import Mapping
from pathlib import Path
from typing import Final

SOON_S: Final = 14 * 86_400
"""For so long before its end somebody should renew it."""
_DAY_S: Final = 86_400
# X509_V_FLAG_NO_CHECK_TIME of OpenSSL, for which the ssl module has no name: of one that has ended, too.
_WHATEVER_THE_TIME: Final = ssl.VerifyFlags(0x200000)


def end_of(serving: ssl.SSLContext, chain: Path) -> float | None:
    """When the first certificate of ``chain``, which ``serving`` shows, ends, as a Unix time in seconds.

    None where that cannot be found out. Raises OSError if the file cannot be read any more.
    """
    client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    client.check_hostname = False
    client.verify_flags |= ssl.VerifyFlags.VERIFY_X509_PARTIAL_CHAIN | _WHATEVER_THE_TIME
    try:
        client.load_verify_locations(chain)
        shown = _shown(client, serving)
        return float(ssl.cert_time_to_seconds(str(shown["notAfter"]))) if shown else None
    except (ssl.SSLError, ValueError):
        # ValueError: it says something that is no text, or no time. It is served all the same.
        return None


def what_is_wrong(ends_at: float, now: float) -> str:
    """Of a certificate that ends, or has ended; empty: nothing yet."""
    if ends_at <= now:
        return "it has ended: clients refuse it"
    if ends_at - now > SOON_S:
        return ""
    days = int((ends_at - now) // _DAY_S)
    return f"it ends in {days} days" if days > 1 else f"it ends in {int((ends_at - now) // 3600)} hours"


def _shown(client: ssl.SSLContext, serving: ssl.SSLContext) -> Mapping[str, object] | None:
    there, back = ssl.MemoryBIO(), ssl.MemoryBIO()
    asks = client.wrap_bio(back, there)
    answers = serving.wrap_bio(there, back, server_side=True)
    # So often with TLS 1.2, which the machine's OpenSSL may be told to stay with; 1.3 needs one answer.
    for one in (asks, answers, asks, answers, asks):
        try:
            one.do_handshake()
        except ssl.SSLWantReadError:
            continue
    return asks.getpeercert()
