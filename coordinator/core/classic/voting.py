"""This room chooses the protocol and the leader of a generation (conformance 31, 47)."""

from collections.abc import Container, Iterable, Mapping

from groups.core.classic import ClassicMember

Protocols = Iterable[tuple[str, bytes]]


def known_by_all(protocols: Protocols, supported: Mapping[str, int], members: int) -> bool:
    """Whether every member knows one of these protocols."""
    for name, _ in protocols:  # noqa: SIM110 - a generator costs as much as all the rest of a Join's checks.
        if supported.get(name) == members:
            return True
    return False


def choose(members: Mapping[str, ClassicMember], supported: Mapping[str, int]) -> str:
    """Of what all know each votes for the first of its own; of equals the one that got a vote first."""
    votes: dict[str, int] = {}
    for member in members.values():
        for name, _ in member.protocols:
            if supported.get(name) == len(members):
                votes[name] = votes.get(name, 0) + 1
                break
    return max(votes, key=votes.__getitem__)


def leader(present: str | None, members: Iterable[str], joined: Container[str]) -> str:
    """The present leader if it joined, else the first that did; somebody must have."""
    if present is not None and present in joined:
        return present
    return next(member_id for member_id in members if member_id in joined)
