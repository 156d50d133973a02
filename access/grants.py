"""This room says what each role may do; a role is a named set of operations, nothing more."""

from enum import StrEnum


class Role(StrEnum):
    """What a principal or a token can be."""

    VIEWER = "viewer"
    CONSUMER = "consumer"
    PRODUCER = "producer"
    CLIENT = "client"
    OPERATOR = "operator"
    ADMIN = "admin"


class Operation(StrEnum):
    """What a door asks for before it opens."""

    VIEW = "view"
    """Read everything that pages, REST and metrics show."""
    CONSUME = "consume"
    """Join a consumer group by whatever door, fetch and commit."""
    PRODUCE = "produce"
    """Write records by Kafka's protocol."""
    OPERATE = "operate"
    """Change groups, topics and brokers."""
    ADMINISTER = "administer"
    """Read tokens, principals and the record of who came in."""


ROLE_OPERATIONS: dict[Role, frozenset[Operation]] = {
    Role.VIEWER: frozenset({Operation.VIEW}),
    Role.CONSUMER: frozenset({Operation.CONSUME}),
    Role.PRODUCER: frozenset({Operation.PRODUCE}),
    Role.CLIENT: frozenset({Operation.CONSUME, Operation.PRODUCE}),
    Role.OPERATOR: frozenset({Operation.VIEW, Operation.CONSUME, Operation.PRODUCE, Operation.OPERATE}),
    Role.ADMIN: frozenset(Operation),
}


def role_may(role: str, operation: Operation) -> bool:
    """True if `role` includes `operation`; an unknown role may do nothing."""
    try:
        return operation in ROLE_OPERATIONS[Role(role)]
    except ValueError:
        return False
