"""This room reads the text of a token, wherever one is shown; `access.tokens` makes them.

It is `mst_<prefix>_<secret>`: the prefix is public and finds the row, the SHA-256 of the secret proves it.
"""

import base64
import binascii
import hashlib

TOKEN_BEGINS = "mst_"
SECRET_BYTES = 32
PREFIX_HEX_DIGITS = 8
_LONGEST_TEXT = 80


def read_token(text: str) -> tuple[str, bytes] | None:
    """Prefix and digest of a presented token; None if it does not have the shape of one."""
    if len(text) > _LONGEST_TEXT or not text.isascii():
        return None
    parts = text.split("_", 2)
    if len(parts) != 3 or parts[0] != "mst" or len(parts[1]) != PREFIX_HEX_DIGITS:
        return None
    try:
        secret = base64.b64decode(parts[2] + "=", altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        return None
    return (parts[1], hashlib.sha256(secret).digest()) if len(secret) == SECRET_BYTES else None
