"""A token opens a Kafka door for its operations and names; whoever is taken back is hung up on."""

import hashlib
from base64 import urlsafe_b64encode

import pytest

from kafkaserver import callers
from kafkaserver.callers import ANYBODY, KafkaCaller, KnownCallers
from muster.kernel.scopes import BadScope, Scope
from muster.kernel.scram import SHA_256, SHA_512, verifier_of
from muster.messages.link.callers import CallerRow, ScramRow

SECRET = bytes(range(32))
TOKEN = f"mst_0a0b0c0d_{urlsafe_b64encode(SECRET).rstrip(b'=').decode()}"


def row(**changes: object) -> CallerRow:
    verifier = verifier_of(SHA_256, TOKEN, b"salt")
    values = {
        "name": "orders-app",
        "principal": "team-a",
        "operations": ("consume",),
        "prefix": "0a0b0c0d",
        "digest": hashlib.sha256(SECRET).digest(),
        "topics": ("orders", "logs-*"),
        "groups": ("team-a-*",),
        "scram": (
            ScramRow(
                mechanism=SHA_256,
                salt=verifier.salt,
                iterations=verifier.iterations,
                stored_key=verifier.stored_key,
                server_key=verifier.server_key,
            ),
        ),
    }
    return CallerRow(**{**values, **changes})  # type: ignore[arg-type]


def known(*rows: CallerRow) -> KnownCallers:
    return KnownCallers(rows or (row(),), key=b"key of a test")


def caller(**changes: object) -> KafkaCaller:
    found = known(row(**changes)).caller("orders-app")
    assert found is not None
    return found


def test_a_consumer_reads_what_its_token_names() -> None:
    ann = caller()
    assert ann.may_read("orders") and ann.may_read("logs-web")
    assert not ann.may_read("payments") and not ann.may_produce("orders") and not ann.may_create("orders")


def test_a_member_may_look_at_its_group_and_not_delete_it() -> None:
    ann = caller()
    assert ann.may_with_group("consume", "team-a-1") and ann.may_with_group("view", "team-a-1")
    assert not ann.may_with_group("operate", "team-a-1") and not ann.may_with_group("consume", "team-b")


def test_a_producer_neither_reads_nor_joins() -> None:
    ann = caller(operations=("produce",))
    assert ann.may_produce("orders")
    assert not ann.may_read("orders")


def test_a_token_without_names_is_good_for_all() -> None:
    ann = caller(topics=(), groups=(), operations=("consume", "operate", "produce", "view"))
    assert ann.may_read("anything") and ann.may_create("anything")


def test_anybody_may_everything_where_nobody_is_asked() -> None:
    assert ANYBODY.may_produce("orders")


@pytest.mark.parametrize("user", ["orders-app", "team-a"])
def test_a_token_is_shown_under_its_name_or_its_principals(user: str) -> None:
    assert known().caller_of_token(user, TOKEN) == caller()


@pytest.mark.parametrize(
    ("user", "token"), [("ben", TOKEN), ("orders-app", TOKEN[:-1] + "A"), ("orders-app", "pencil")]
)
def test_another_token_opens_nothing(user: str, token: str) -> None:
    assert known().caller_of_token(user, token) is None


def test_a_strangers_verifier_is_always_the_same_and_nobody_elses() -> None:
    stranger = known().verifier(SHA_256, "ben")
    assert stranger == known().verifier(SHA_256, "ben") != known().verifier(SHA_256, "cleo")
    assert len(known().verifier(SHA_512, "ben").stored_key) == 64
    assert known().verifier(SHA_256, "orders-app").salt == b"salt"


def test_whoever_has_other_rights_now_does_not_stay() -> None:
    ann = caller()
    assert known().knows(ann)
    assert not known(row(topics=("orders",))).knows(ann)
    assert not known(row(prefix="ffffffff")).knows(ann)
    assert not known(row(name="other")).knows(ann)


@pytest.mark.parametrize("pattern", ["", "a*b", "*a", "x" * 251, "a\0"])
def test_patterns_that_no_scope_has(pattern: str) -> None:
    with pytest.raises(BadScope):
        Scope.of([pattern])


def test_a_lone_star_is_everything() -> None:
    assert Scope.of(["*"]).is_everything and Scope.of(["*"]).covers("anything")


@pytest.mark.parametrize("patterns", [(), ("*",), ("orders",), ("a*", "orders"), ("b", "a", "c*")])
def test_a_scope_says_of_what_it_was_made(patterns: tuple[str, ...]) -> None:
    assert Scope.of(patterns).patterns == tuple(sorted(patterns))
    assert Scope.of(Scope.of(patterns).patterns) == Scope.of(patterns)


def test_a_push_makes_nobody_who_does_not_come(monkeypatch: pytest.MonkeyPatch) -> None:
    """At each token that is made or taken back all are pushed anew, in the loop that serves everybody."""
    made: list[object] = []

    def make(*values: object) -> object:
        made.append(values)
        return values

    monkeypatch.setattr(callers, "KafkaCaller", make)
    pushed = known(row(), row(name="another", prefix="1a1b1c1d"))
    assert made == []
    assert pushed.caller("another") is pushed.caller("another")
    assert len(made) == 1
