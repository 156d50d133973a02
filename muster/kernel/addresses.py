"""This room reads addresses, and tells those that only this machine can reach from all others."""

from ipaddress import IPv6Address, ip_address
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


def is_unspecified(host: str) -> bool:
    """True for an address that means all of a machine's own, such as 0.0.0.0: nobody can connect to it."""
    try:
        return ip_address(host.strip("[]")).is_unspecified
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


def place_of_websocket(address: str) -> str:
    """`host:port` of `ws://…` or `wss://…`; empty for anything else."""
    try:
        split = urlsplit(address)
        host, port = split.hostname, split.port or {"ws": 80, "wss": 443}.get(split.scheme)
    except ValueError:
        return ""
    if not host or port is None:
        return ""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def network_of(address: str) -> str:
    """What one stranger can have of addresses: an IPv4 address, or a /64 of IPv6."""
    try:
        known = ip_address(address)
    except ValueError:
        return address
    if not isinstance(known, IPv6Address):
        return str(known)
    return known.ipv4_mapped.compressed if known.ipv4_mapped else known.exploded[:19]
