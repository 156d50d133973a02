"""This room says which node should hold which lease: rendezvous hashing over the live ones (design 4.3)."""

import hashlib
from collections.abc import Iterable, Mapping, Sequence

from runtime.database import LeaseRow
from runtime.ports import CONTROLLER_LANE, LiveNode

WAIT_FOR_BEST_MS = 2_000
"""A free lease is left to the node that should have it for so long; then anybody takes it."""

MADE_WAY_REST_MS = 10_000
"""Who made way for another node takes the controller again only when nobody else came for it for so long."""

QUIET_MS = 30_000
"""A lease with open sockets moves only after so long without anything happening."""

MOVES_AT_ONCE = 4


def weight(node: str, lease: str) -> int:
    """How strongly this lease belongs to this node; the same on every node and in every release."""
    digest = hashlib.blake2b(f"{node}\0{lease}".encode(), digest_size=8)
    return int.from_bytes(digest.digest(), "big")


def best(nodes: Iterable[LiveNode], lease: str) -> LiveNode | None:
    """The live node that should hold this lease; draining ones should hold none."""
    candidates = [node for node in nodes if not node.draining]
    if lease == CONTROLLER_LANE:
        candidates = _reached(candidates)
    return max(candidates, key=lambda node: (weight(node.node, lease), node.run), default=None)


def _reached(nodes: list[LiveNode]) -> list[LiveNode]:
    """Those that others made way for, as brokers reach them; else who made way for nobody; else all."""
    able = [node for node in nodes if not node.made_way_for]
    named = {node.made_way_for for node in nodes}
    return [node for node in able if node.run in named] or able or nodes


def to_take(
    leases: Sequence[LeaseRow],
    mine: str,
    held: Iterable[str],
    nodes: Sequence[LiveNode],
    free_for_ms: Mapping[str, int],
) -> list[LeaseRow]:
    """Which leases the run `mine` takes now, of those that are free or name it without it holding them.

    It takes at once what it should hold, and after 2 s what nobody else came for.
    """
    holding = set(held)
    rests = any(node.run == mine and node.made_way_for for node in nodes)
    wanted: list[LeaseRow] = []
    for lease in leases:
        if lease.name in holding:
            continue
        if lease.run == mine:
            wanted.append(lease)
        elif lease.free:
            chosen = best(nodes, lease.name)
            wait_ms = MADE_WAY_REST_MS if rests and lease.name == CONTROLLER_LANE else WAIT_FOR_BEST_MS
            if chosen is None or chosen.run == mine or free_for_ms.get(lease.name, 0) >= wait_ms:
                wanted.append(lease)
    return wanted


def to_give(
    held: Mapping[str, int], mine: str, nodes: Sequence[LiveNode], moving: int
) -> list[tuple[str, LiveNode]]:
    """Which held leases another live node should have, with it; `held` gives each one's quiet time in ms."""
    moves: list[tuple[str, LiveNode]] = []
    for name, quiet_ms in sorted(held.items()):
        if moving + len(moves) >= MOVES_AT_ONCE:
            break
        chosen = best(nodes, name)
        if chosen is not None and chosen.run != mine and quiet_ms >= QUIET_MS:
            moves.append((name, chosen))
    return moves
