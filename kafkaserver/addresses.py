"""This room says of an address that cannot be listened on which setting named it, and why."""

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager

from muster.kernel.environment import SettingError


class CannotListenError(SettingError):
    """An address is taken, is none of this machine's, or may not be used by this user."""


@contextmanager
def named(variable: str, host: str, port: int) -> Iterator[None]:
    """Listen within. Raises CannotListenError for its OSError, with the variable that names the address."""
    try:
        yield
    except OSError as error:
        place = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        # asyncio repeats the address, the system names the reason alone; a name without address has no errno.
        reason = error.strerror if isinstance(error, socket.gaierror) else os.strerror(error.errno or 0)
        raise CannotListenError(f"{variable}={place} cannot be listened on: {reason}.") from error


def refuse_what_cannot_be_listened_on(variable: str, host: str, port: int) -> None:
    """Bind it, and let it go: for servers that tell of the failure in words of their own.

    Raises CannotListenError.
    """
    with named(variable, host, port):
        for family, kind, protocol, _, address in socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        ):
            with socket.socket(family, kind, protocol) as held:
                held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                if family == socket.AF_INET6:
                    held.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
                held.bind(address)
