"""This room holds who may come in at a Kafka door, as a node tells every broker: whole, the latest counts."""

import msgspec


class ScramRow(msgspec.Struct, frozen=True, kw_only=True):
    """What proves one secret by one mechanism (muster.kernel.scram.Verifier)."""

    mechanism: str
    salt: bytes
    iterations: int
    stored_key: bytes
    server_key: bytes


class CallerRow(msgspec.Struct, frozen=True, kw_only=True):
    """One living token: what its holder may do, for which names, and what proves it.

    `operations` are words of `access.grants.Operation`; `digest` is the SHA-256 of the secret behind
    `prefix`. `topics` and `groups` are patterns of `muster.kernel.scopes`; none: every name.
    """

    name: str
    principal: str
    operations: tuple[str, ...]
    prefix: str
    digest: bytes
    topics: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    scram: tuple[ScramRow, ...] = ()


CALLERS_PER_FRAME = 1_000


class Callers(msgspec.Struct, frozen=True, tag="Callers", tag_field="type", kw_only=True):
    """Everybody who may come in, in frames of CALLERS_PER_FRAME; whoever is not named is hung up on.

    Said on each link when it is bound, and whenever they are others; `last` ends one telling.
    """

    callers: tuple[CallerRow, ...]
    last: bool = True


def frames_of(callers: tuple[CallerRow, ...]) -> list[Callers]:
    """One telling."""
    starts = range(0, len(callers), CALLERS_PER_FRAME) if callers else (0,)
    return [
        Callers(
            callers=callers[start : start + CALLERS_PER_FRAME],
            last=start + CALLERS_PER_FRAME >= len(callers),
        )
        for start in starts
    ]
