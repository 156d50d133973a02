"""This room reads addresses, and tells those that only this machine can reach from all others."""

from ipaddress import ip_address
from urllib.parse import urlsplit


def is_loopback(host: str) -> bool:
    """True for a name or an address that only this machine can reach; IPv6 may stand in brackets."""
    bare = host.strip().strip("[]")
    if bare == "localhost" or bare.endswith(".localhost"):
        return True
    try:
        return ip_address(bare).is_loopback
    except ValueError:
        return False


def host_and_port(text: str) -> tuple[str, int] | None:
    """Host and port of `host:port`; IPv6 stands in brackets. None for anything else."""
    try:
        split = urlsplit(f"//{text}")
        host, port = split.hostname, split.port
    except ValueError:
        return None
    return (host, port) if host and port is not None else None
