"""A follower and its leader show each other that they know the cluster's key, which neither ever sends."""

import pytest

from broker.core.peer_proof import (
    NO_KEY,
    NONCE_BYTES,
    FollowerSide,
    Incarnation,
    LeaderSide,
    ReplicationKey,
)
from muster.kafkawire.errors import NotAdmitted

KEY = ReplicationKey("a-cluster", b"a key of the cluster")
OTHER_KEYS = [
    ReplicationKey("a-cluster", b"another key"),
    ReplicationKey("another-cluster", KEY.secret),
    NO_KEY,
]
TWO = Incarnation(2, 7)


def nonce(number: int) -> bytes:
    return bytes([number]) * NONCE_BYTES


def follower(key: ReplicationKey = KEY, leader: int = 1) -> FollowerSide:
    return FollowerSide(key, TWO, leader, nonce(1))


def leader(key: ReplicationKey = KEY, number: int = 2) -> LeaderSide:
    return LeaderSide(key, 1, nonce(number))


def test_who_knows_the_key_is_admitted_as_who_it_says_it_is() -> None:
    two, one = follower(), leader()
    challenge = one.hear(two.introduction())
    admitted = [one.admitted]
    assert one.hear(two.proof(challenge)) == b""
    admitted.append(one.admitted)
    assert admitted == [None, TWO]
    assert KEY.secret not in two.introduction() + challenge


@pytest.mark.parametrize("other", OTHER_KEYS)
def test_a_stranger_that_answers_a_follower_gets_nothing_that_it_could_use(other: ReplicationKey) -> None:
    two = follower()
    with pytest.raises(NotAdmitted):
        two.proof(leader(other).hear(two.introduction()))


@pytest.mark.parametrize("other", OTHER_KEYS)
def test_a_stranger_that_knocks_is_not_admitted(other: ReplicationKey) -> None:
    two, one = follower(other), leader()
    challenge = one.hear(two.introduction())
    with pytest.raises(NotAdmitted):
        one.hear(two.proof(challenge))
    assert one.admitted is None


@pytest.mark.parametrize("frame", [b"", b"\x00" * 48, bytes(1_000), follower().introduction()[:-1]])
def test_what_is_no_introduction_or_no_proof_is_refused(frame: bytes) -> None:
    with pytest.raises(NotAdmitted):
        leader().hear(frame)
    one = leader()
    one.hear(follower().introduction())
    with pytest.raises(NotAdmitted):
        one.hear(frame)


def test_a_proof_cannot_be_used_twice() -> None:
    two, one = follower(), leader()
    proof = two.proof(one.hear(two.introduction()))
    again = leader(number=3)
    again.hear(follower().introduction())
    with pytest.raises(NotAdmitted):
        again.hear(proof)


def test_what_one_leader_was_shown_does_not_convince_another() -> None:
    """The stranger passes on what it hears: both codes name the leader that the follower meant."""
    two, three = follower(leader=3), leader()
    with pytest.raises(NotAdmitted):
        two.proof(three.hear(two.introduction()))
