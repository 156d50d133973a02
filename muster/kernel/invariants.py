"""This room holds what must never be false: a broken invariant is our own mistake, never a peer's."""


class InvariantViolation(AssertionError):
    """Our own mistake: roll back, close the connection, log the whole event; never caught inside."""


def invariant(condition: object, text: str) -> None:
    """Raise InvariantViolation(text) unless `condition` holds; stays on in production."""
    if not condition:
        raise InvariantViolation(text)
