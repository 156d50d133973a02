"""This room tells addresses that only this machine can reach from all others."""

from ipaddress import ip_address


def is_loopback(host: str) -> bool:
    """True for a name or an address that only this machine can reach; IPv6 may stand in brackets."""
    bare = host.strip().strip("[]")
    if bare == "localhost" or bare.endswith(".localhost"):
        return True
    try:
        return ip_address(bare).is_loopback
    except ValueError:
        return False
