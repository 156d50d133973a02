"""This room knows who may come in at a Kafka door and what each may do there; replaced whole by each push."""

import hmac
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from kafkaserver.replies import Reply
from muster.kernel.scopes import EVERYTHING, Scope
from muster.kernel.scram import ITERATIONS, Verifier
from muster.kernel.token_text import TOKEN_BEGINS, read_token
from muster.messages.link.callers import CallerRow

CONSUME: Final = "consume"
PRODUCE: Final = "produce"
OPERATE: Final = "operate"
VIEW: Final = "view"

READ, WRITE, CREATE, DELETE, ALTER, DESCRIBE = 3, 4, 5, 6, 7, 8
DESCRIBE_CONFIGS, ALTER_CONFIGS, IDEMPOTENT_WRITE = 10, 11, 12
"""Kafka's numbers of what somebody may do with a cluster, a group or a topic (AclOperation)."""

_NO_DIGEST: Final = bytes(32)
_SALT_BYTES: Final = 16


@dataclass(frozen=True, slots=True)
class KafkaCaller:
    """Who speaks on a connection, proven, and what it may do."""

    name: str
    principal: str
    prefix: str
    operations: frozenset[str]
    topics: Scope
    groups: Scope

    def may(self, *operations: str) -> bool:
        """True if one of these is among its operations."""
        return not self.operations.isdisjoint(operations)

    def may_produce(self, topic: str) -> bool:
        """Whether records of `topic` are taken from it."""
        return PRODUCE in self.operations and self.topics.covers(topic)

    def may_read(self, topic: str) -> bool:
        """Whether it is given records and offsets of `topic`."""
        return CONSUME in self.operations and self.topics.covers(topic)

    def may_create(self, topic: str) -> bool:
        """Whether it may create `topic`, or change what it is."""
        return OPERATE in self.operations and self.topics.covers(topic)

    @property
    def is_unbounded(self) -> bool:
        """Whether it is good for every topic and group: only then is it told of others' names."""
        return self.topics.is_everything and self.groups.is_everything

    @property
    def may_operate_the_cluster(self) -> bool:
        """Whether it may change what is nobody's topic or group: quotas, brokers, leaders of everything."""
        return OPERATE in self.operations and self.is_unbounded

    @property
    def cluster_operations(self) -> int:
        """What it may do with the cluster: one bit for each number of Kafka's AclOperation."""
        allowed = {DESCRIBE, DESCRIBE_CONFIGS} if VIEW in self.operations else set()
        if OPERATE in self.operations:
            allowed.add(CREATE)
        if self.may_operate_the_cluster:
            allowed |= {ALTER, ALTER_CONFIGS}
        if PRODUCE in self.operations:
            allowed.add(IDEMPOTENT_WRITE)
        return sum(1 << number for number in allowed)

    def may_with_group(self, operation: str, group: str) -> bool:
        """Whether it may do this with `group`; who may consume is told about what it consumes with."""
        operations = (VIEW, CONSUME) if operation == VIEW else (operation,)
        return self.may(*operations) and self.groups.covers(group)

    def group_operations(self, group: str) -> int:
        """What it may do with `group`, as `cluster_operations`."""
        needed = {READ: CONSUME, DELETE: OPERATE, DESCRIBE: VIEW}
        return sum(1 << number for number, one in needed.items() if self.may_with_group(one, group))

    def may_describe(self, topic: str) -> bool:
        """Whether it is told about `topic`, its partitions and offsets: whoever may do anything with it."""
        return self.topics.covers(topic)

    def topic_operations(self, topic: str) -> int:
        """What it may do with `topic`, as `cluster_operations`."""
        allowed = {DESCRIBE, DESCRIBE_CONFIGS} if self.may_describe(topic) else set()
        if self.may_read(topic):
            allowed.add(READ)
        if self.may_produce(topic):
            allowed.add(WRITE)
        if self.may_create(topic):
            allowed |= {CREATE, DELETE, ALTER, ALTER_CONFIGS}
        return sum(1 << number for number in allowed)


class KnownCallers:
    """Everybody of one push (sasl.Credentials); strangers are told apart from nobody."""

    def __init__(self, rows: Iterable[CallerRow] = (), *, key: bytes) -> None:
        """`key`: random, kept by the process; a stranger's salt is made of it."""
        self._key = key
        self._rows = {row.name: row for row in rows}
        self._by_prefix = {row.prefix: row for row in self._rows.values()}
        # Made when first asked for: ten thousand at once, at each push, would hold the loop for 0.2 s.
        self._callers: dict[str, KafkaCaller] = {}

    def _caller(self, row: CallerRow) -> KafkaCaller:
        caller = self._callers.get(row.name)
        if caller is None:
            caller = self._callers[row.name] = KafkaCaller(
                row.name,
                row.principal,
                row.prefix,
                frozenset(row.operations),
                Scope.of(row.topics),
                Scope.of(row.groups),
            )
        return caller

    def _row(self, user: str) -> CallerRow | None:
        """By a token's public part, mst_<prefix>, which its holder always knows, or by its name."""
        row = self._by_prefix.get(user.removeprefix(TOKEN_BEGINS)) if user.startswith(TOKEN_BEGINS) else None
        return row or self._rows.get(user)

    def verifier(self, mechanism: str, user: str) -> Verifier:
        """Of this user's secret; of a stranger's that nobody knows, always the same."""
        row = self._row(user)
        for one in row.scram if row else ():
            if one.mechanism == mechanism:
                return Verifier(one.salt, one.iterations, one.stored_key, one.server_key)
        size = 64 if mechanism.endswith("512") else 32
        made = hmac.digest(self._key, f"{mechanism} {user}".encode(), "sha512")
        return Verifier(made[:_SALT_BYTES], ITERATIONS, made[:size], made[:size])

    def caller(self, user: str) -> KafkaCaller | None:
        """Who this user is."""
        row = self._row(user)
        return None if row is None else self._caller(row)

    def caller_of_token(self, user: str, presented: str) -> KafkaCaller | None:
        """Who shows this token, under its public part, its own name or its principal's."""
        read = read_token(presented)
        if read is None:
            return None
        prefix, digest = read
        row = self._by_prefix.get(prefix)
        same = hmac.compare_digest(row.digest if row else _NO_DIGEST, digest)
        if row is None or not same or user not in (TOKEN_BEGINS + prefix, row.name, row.principal):
            return None
        return self._caller(row)

    def knows(self, caller: object) -> bool:
        """Whether this caller may stay as it is: same token, same rights."""
        row = self._rows.get(caller.name) if isinstance(caller, KafkaCaller) else None
        return row is not None and self._caller(row) == caller


ANYBODY: Final = KafkaCaller("", "", "", frozenset({CONSUME, PRODUCE, OPERATE, VIEW}), EVERYTHING, EVERYTHING)
"""Who speaks at a door that asks nobody who they are; such a door stands on loopback."""


def caller_of(reply: Reply) -> KafkaCaller:
    """Who asked."""
    identity = reply.identity
    return identity if isinstance(identity, KafkaCaller) else ANYBODY
