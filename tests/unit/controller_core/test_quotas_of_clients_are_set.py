"""AlterClientQuotas, DescribeClientQuotas: what is refused by name, who is told, who is meant (KIP-546)."""

import pytest

from controller.core.draft import Draft
from controller.core.quotas import MOST_QUOTAS
from controller.core.records import ClientQuotaChanged
from controller.core.state import after_records
from muster.kernel.error_codes import ErrorCode
from muster.messages.link.quotas import (
    EXACT,
    OF_ANY,
    OF_DEFAULT,
    AlterClientQuotas,
    ClientQuotas,
    DescribeClientQuotas,
    Entity,
    QuotaAlteration,
    QuotaFilter,
    QuotaOperation,
    QuotaResults,
    QuotaRow,
)
from muster.messages.link.to_broker import Changes, SnapshotChunk
from tests.unit.controller_core.stage import Cluster, heard, hello, said

ANN: Entity = (("user", "ann"),)
RATE = QuotaOperation("producer_byte_rate", 1_024.0)


def wish(
    *alterations: tuple[Entity, tuple[QuotaOperation, ...]],
    validate_only: bool = False,
    expected_version: int | None = None,
) -> AlterClientQuotas:
    return AlterClientQuotas(
        correlation_id=4,
        alterations=tuple(QuotaAlteration(*one) for one in alterations),
        validate_only=validate_only,
        expected_version=expected_version,
    )


def errors(cluster: Cluster, frame: AlterClientQuotas) -> list[ErrorCode]:
    return [one.error for one in results(cluster, frame).results]


def results(cluster: Cluster, frame: AlterClientQuotas) -> QuotaResults:
    answers = said(cluster.turn(heard("link-1a", frame)), "link-1a")
    [answer] = [one for one in answers if isinstance(one, QuotaResults)]
    return answer


def described(cluster: Cluster, *filters: QuotaFilter, strict: bool = False) -> list[tuple[str | None, ...]]:
    frame = DescribeClientQuotas(correlation_id=5, filters=filters, strict=strict)
    [answer] = said(cluster.turn(heard("link-1a", frame)), "link-1a")
    assert isinstance(answer, ClientQuotas)
    assert answer.error == ErrorCode.NONE
    return [row.key for row in answer.quotas]


def test_every_broker_hears_of_a_quota_and_a_new_one_finds_it_in_its_snapshot() -> None:
    cluster = Cluster(brokers=2)
    decision = cluster.turn(heard("link-1a", wish((ANN, (RATE,)))))
    row = QuotaRow("ann", None, producer_byte_rate=1_024, version=cluster.state.rows.metadata_version)
    assert decision.records[1:] == (ClientQuotaChanged(row),)
    for link in ("link-1a", "link-2a"):
        [told] = [one for one in said(decision, link) if isinstance(one, Changes)]
        assert told.quotas == (row,)
    chunks = said(cluster.turn(hello(3)), "link-3a")
    assert [one.quotas for one in chunks if isinstance(one, SnapshotChunk)] == [(row,)]


def test_a_quota_without_a_rate_is_no_more() -> None:
    cluster = Cluster(brokers=1)
    assert errors(cluster, wish((ANN, (RATE, QuotaOperation("consumer_byte_rate", 5.0))))) == [ErrorCode.NONE]
    assert errors(cluster, wish((ANN, (QuotaOperation("producer_byte_rate"),)))) == [ErrorCode.NONE]
    [row] = cluster.state.rows.quotas.values()
    assert (row.producer_byte_rate, row.consumer_byte_rate) == (None, 5)
    assert errors(cluster, wish((ANN, (QuotaOperation("consumer_byte_rate"),)))) == [ErrorCode.NONE]
    assert (cluster.state.rows.quotas, described(cluster)) == ({}, [])


def test_what_changes_nothing_writes_nothing() -> None:
    cluster = Cluster(brokers=1)
    frame = wish((ANN, (RATE,)))
    cluster.turn(heard("link-1a", frame))
    assert cluster.turn(heard("link-1a", frame)).records == ()
    nothing_set = wish(((("user", "bob"),), (QuotaOperation("consumer_byte_rate"),)))
    assert errors(cluster, nothing_set) == [ErrorCode.NONE]
    set_and_taken_away = (
        heard("link-1a", wish(((("user", "bob"),), (RATE,)))),
        heard("link-1a", wish(((("user", "bob"),), (QuotaOperation("producer_byte_rate"),)))),
    )
    assert cluster.turn(*set_and_taken_away).records == ()


@pytest.mark.parametrize(
    ("entity", "operation", "said_of_it"),
    [
        (ANN, QuotaOperation("request_percentage", 50.0), "request_percentage is not obeyed here"),
        (ANN, QuotaOperation("controller_mutation_rate", 5.0), "controller_mutation_rate is not obeyed here"),
        (ANN, QuotaOperation("speed", 1.0), "no quota 'speed'"),
        (ANN, QuotaOperation("producer_byte_rate", 0.0), "whole number"),
        (ANN, QuotaOperation("producer_byte_rate", 1.5), "whole number"),
        (ANN, QuotaOperation("producer_byte_rate", -5.0), "whole number"),
        (ANN, QuotaOperation("producer_byte_rate", 2.0**63), "whole number"),
        ((("ip", "10.0.0.1"),), RATE, "not for 'ip'"),
        ((("user", ""),), RATE, "printable"),
        ((("client-id", "a\nb"),), RATE, "printable"),
        ((("client-id", "a" * 250),), RATE, "249"),
        ((), RATE, "an entity names"),
        ((("user", "ann"), ("user", "bob")), RATE, "at most once"),
    ],
)
def test_what_nobody_can_have_is_refused_by_name_and_the_rest_goes_on(
    entity: Entity, operation: QuotaOperation, said_of_it: str
) -> None:
    cluster = Cluster(brokers=1)
    bad, good = results(cluster, wish((entity, (operation,)), ((("user", "bob"),), (RATE,)))).results
    assert (bad.error, bad.entity, good.error) == (ErrorCode.INVALID_REQUEST, entity, ErrorCode.NONE)
    assert said_of_it in bad.text
    assert described(cluster) == [("bob", None)]


def test_one_key_twice_is_refused() -> None:
    frame = wish((ANN, (RATE, QuotaOperation("producer_byte_rate"))))
    assert errors(Cluster(brokers=1), frame) == [ErrorCode.INVALID_REQUEST]


def test_an_entity_that_is_named_twice_is_refused_both_times() -> None:
    both = (("user", "ann"), ("client-id", "till"))
    cluster = Cluster(brokers=1)
    frame = wish((both, (RATE,)), (both[::-1], (RATE,)), ((("user", "bob"),), (RATE,)))
    assert errors(cluster, frame) == [ErrorCode.INVALID_REQUEST, ErrorCode.INVALID_REQUEST, ErrorCode.NONE]
    assert described(cluster) == [("bob", None)]


def test_to_validate_changes_nothing() -> None:
    cluster = Cluster(brokers=1)
    assert errors(cluster, wish((ANN, (RATE,)), validate_only=True)) == [ErrorCode.NONE]
    assert described(cluster) == []


def test_who_saw_another_version_is_refused() -> None:
    cluster = Cluster(brokers=1)
    assert errors(cluster, wish((ANN, (RATE,)), expected_version=0)) == [ErrorCode.NONE]
    other = (QuotaOperation("producer_byte_rate", 9.0),)
    assert errors(cluster, wish((ANN, other), expected_version=0)) == [ErrorCode.INVALID_UPDATE_VERSION]
    version = cluster.state.rows.quotas["ann", None].version
    assert errors(cluster, wish((ANN, other), expected_version=version)) == [ErrorCode.NONE]
    [stale, first] = (results(cluster, wish((ANN, (RATE,)), expected_version=one)) for one in (version, 0))
    assert stale.results[0].text.endswith(f"now, and was to be changed as of {version}")
    assert first.results[0].text == "there is a quota for it already"
    assert errors(cluster, wish((ANN, (QuotaOperation("producer_byte_rate", None),)))) == [ErrorCode.NONE]
    [gone] = results(cluster, wish((ANN, (RATE,)), expected_version=version)).results
    assert gone.text == "there is no such quota any more"


def test_filters_mean_what_kafkas_mean() -> None:
    cluster = Cluster(brokers=1)
    entities: list[Entity] = [
        (("user", "ann"),),
        (("user", None),),
        (("user", "ann"), ("client-id", "till")),
        (("client-id", "till"),),
        (("client-id", None), ("user", None)),
    ]
    cluster.turn(heard("link-1a", wish(*((entity, (RATE,)) for entity in entities))))
    assert len(described(cluster)) == 5
    assert described(cluster, strict=True) == []
    ann = QuotaFilter("user", EXACT, "ann")
    assert described(cluster, ann) == [("ann", None), ("ann", "till")]
    assert described(cluster, ann, strict=True) == [("ann", None)]
    assert described(cluster, QuotaFilter("user", OF_DEFAULT)) == [("", None), ("", "")]
    assert described(cluster, QuotaFilter("user", EXACT, "")) == []
    assert described(cluster, QuotaFilter("user", OF_ANY), strict=True) == [("ann", None), ("", None)]
    both = (QuotaFilter("user", OF_ANY), QuotaFilter("client-id", OF_ANY))
    assert described(cluster, *both, strict=True) == [("ann", "till"), ("", "")]


@pytest.mark.parametrize(
    ("filters", "error"),
    [
        ((QuotaFilter("ip", OF_ANY),), ErrorCode.UNSUPPORTED_VERSION),
        ((QuotaFilter("ip", OF_ANY), QuotaFilter("user", OF_ANY)), ErrorCode.INVALID_REQUEST),
        ((QuotaFilter("", OF_ANY),), ErrorCode.INVALID_REQUEST),
        ((QuotaFilter("user", OF_ANY), QuotaFilter("user", OF_DEFAULT)), ErrorCode.INVALID_REQUEST),
        ((QuotaFilter("user", 3),), ErrorCode.INVALID_REQUEST),
        ((QuotaFilter("user", EXACT),), ErrorCode.INVALID_REQUEST),
        ((QuotaFilter("user", OF_ANY, "ann"),), ErrorCode.INVALID_REQUEST),
    ],
)
def test_a_filter_that_means_nothing_is_refused(filters: tuple[QuotaFilter, ...], error: ErrorCode) -> None:
    frame = DescribeClientQuotas(correlation_id=5, filters=filters)
    [answer] = said(Cluster(brokers=1).turn(heard("link-1a", frame)), "link-1a")
    assert isinstance(answer, ClientQuotas)
    assert answer.error == error


def test_a_new_owner_loads_what_was_decided() -> None:
    cluster = Cluster(brokers=1)
    before = cluster.state.rows
    decision = cluster.turn(heard("link-1a", wish((ANN, (RATE,)))))
    assert after_records(before, decision.records) == cluster.state.rows
    assert before.quotas == {}


def many(first: int, last: int) -> tuple[tuple[Entity, tuple[QuotaOperation, ...]], ...]:
    return tuple(((("user", f"user-{number}"),), (RATE,)) for number in range(first, last))


def test_so_many_have_quotas_and_no_more_and_who_loses_his_makes_room() -> None:
    cluster = Cluster(brokers=1)
    assert set(errors(cluster, wish(*many(0, MOST_QUOTAS - 1)))) == {ErrorCode.NONE}
    full = errors(cluster, wish(*many(MOST_QUOTAS - 1, MOST_QUOTAS + 1)))
    assert full == [ErrorCode.NONE, ErrorCode.POLICY_VIOLATION]
    gone = ((("user", "user-0"),), (QuotaOperation("producer_byte_rate", None),))
    changed = errors(cluster, wish(gone, *many(1, 2), *many(MOST_QUOTAS, MOST_QUOTAS + 2)))
    assert changed == [ErrorCode.NONE, ErrorCode.NONE, ErrorCode.NONE, ErrorCode.POLICY_VIOLATION]


def test_thousands_are_set_at_the_price_of_thousands(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of them counted all the others: 2.2 s of the loop for 2,500 beside 7,500."""
    counted = 0
    count = Draft.all_quotas

    def counting(draft: Draft) -> list[QuotaRow]:
        nonlocal counted
        counted += 1
        return count(draft)

    monkeypatch.setattr(Draft, "all_quotas", counting)
    errors(Cluster(brokers=1), wish(*many(0, 100)))
    assert counted < 5
