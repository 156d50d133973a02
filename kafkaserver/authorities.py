"""This room refuses a file of authorities that vouches for nobody, before a connection needs it."""

import ssl
from typing import Final

from muster.kernel.environment import SettingError

CA: Final = "MUSTER_KAFKA_TLS_CA"


def refuse_unusable_authorities(ca_file: str) -> None:
    """Whom this process trusts stands in ``ca_file``; empty: whom the system trusts. Raises SettingError."""
    if not ca_file:
        return
    try:
        ssl.create_default_context(cafile=ca_file)
    except ssl.SSLError as error:
        raise SettingError(f"{CA}={ca_file} holds no certificate in PEM.") from error
    except OSError as error:
        raise SettingError(f"{CA}={ca_file} cannot be read: {error.strerror}.") from error
