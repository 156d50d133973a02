"""This room is the proof that two brokers give each other before one follows the other.

All brokers of a cluster are told one key on their links; it never crosses this wire. Each side throws a
number, and shows that it knows the key by a code over both numbers and over who the two are (HMAC-SHA256).
Three frames: introduction, challenge, proof. Pure: numbers and key are arguments.
"""

import hmac
import struct
from hashlib import sha256
from typing import Final, NamedTuple

from muster.kafkawire.errors import NotAdmitted

NONCE_BYTES: Final = 32

_MAGIC: Final = b"MREP"
_INTRODUCTION = struct.Struct(">4siq32s")
_CHALLENGE = struct.Struct(">32s32s")
_WHO = struct.Struct(">iiq")


class ReplicationKey(NamedTuple):
    """What the brokers of one cluster share; without a secret nobody is admitted and nobody follows."""

    cluster_id: str
    secret: bytes


NO_KEY: Final = ReplicationKey("", b"")


class Incarnation(NamedTuple):
    """A broker and its epoch."""

    broker_id: int
    broker_epoch: int


class FollowerSide:
    """Who connects. `leader` is the broker that it believes to have reached."""

    def __init__(self, key: ReplicationKey, me: Incarnation, leader: int, nonce: bytes) -> None:
        self._key = key
        self._me = me
        self._leader = leader
        self._nonce = nonce

    def introduction(self) -> bytes:
        """The first frame."""
        return _INTRODUCTION.pack(_MAGIC, *self._me, self._nonce)

    def proof(self, challenge: bytes | memoryview) -> bytes:
        """The answer to the leader's challenge. Raises NotAdmitted if that is not the leader."""
        if not self._key.secret or len(challenge) != _CHALLENGE.size:
            raise NotAdmitted("the peer answers no introduction")
        nonce, shown = _CHALLENGE.unpack(challenge)
        told = _Told(self._key, self._leader, self._me, self._nonce, nonce)
        if not hmac.compare_digest(shown, told.code(b"leader")):
            raise NotAdmitted("the peer does not know this cluster's key")
        return told.code(b"follower")


class LeaderSide:
    """Who is connected to; `admitted` is the follower once it has given its proof."""

    def __init__(self, key: ReplicationKey, me: int, nonce: bytes) -> None:
        self._key = key
        self._me = me
        self._nonce = nonce
        self._follower: Incarnation | None = None
        self._told: _Told | None = None
        self.admitted: Incarnation | None = None

    def hear(self, frame: bytes | memoryview) -> bytes:
        """What to answer to the next frame of the follower; b"": nothing. Raises NotAdmitted."""
        if not self._key.secret:
            raise NotAdmitted("this broker does not know its cluster's key yet")
        if self._told is None or self._follower is None:
            return self._challenge(frame)
        if not hmac.compare_digest(bytes(frame), self._told.code(b"follower")):
            raise NotAdmitted(f"no proof that it is broker {self._follower.broker_id}")
        self.admitted = self._follower
        return b""

    def _challenge(self, frame: bytes | memoryview) -> bytes:
        if len(frame) != _INTRODUCTION.size:
            raise NotAdmitted("no introduction")
        magic, broker_id, broker_epoch, nonce = _INTRODUCTION.unpack(frame)
        if magic != _MAGIC or broker_id == self._me:
            raise NotAdmitted("no introduction")
        self._follower = Incarnation(broker_id, broker_epoch)
        self._told = _Told(self._key, self._me, self._follower, nonce, self._nonce)
        return _CHALLENGE.pack(self._nonce, self._told.code(b"leader"))


class _Told(NamedTuple):
    """All that both sides have said, as each of them puts it under the key."""

    key: ReplicationKey
    leader: int
    follower: Incarnation
    follower_nonce: bytes
    leader_nonce: bytes

    def code(self, role: bytes) -> bytes:
        cluster = sha256(self.key.cluster_id.encode()).digest()
        who = _WHO.pack(self.leader, *self.follower)
        said = sha256(role).digest() + cluster + who + self.follower_nonce + self.leader_nonce
        return hmac.digest(self.key.secret, said, "sha256")
