"""This room holds client quotas as they travel on the broker link: the rows, who changes them, who asks."""

import msgspec

from muster.kernel.error_codes import ErrorCode

QuotaKey = tuple[str | None, str | None]
"""User and client id: None: not part of it; "": the default (muster.kernel.client_quotas)."""

Entity = tuple[tuple[str, str | None], ...]
"""Whom a quota is for, as Kafka words it: type and name; None: the default of this type."""


class QuotaRow(msgspec.Struct, frozen=True):
    """What one user, client id, or both together may send and fetch, in bytes per second and broker.

    Without any rate it is no more. `version` is the metadata_version of the turn that last changed it.
    """

    user: str | None
    client_id: str | None
    producer_byte_rate: int | None = None
    consumer_byte_rate: int | None = None
    version: int = 0

    @property
    def key(self) -> QuotaKey:
        return self.user, self.client_id

    @property
    def is_empty(self) -> bool:
        return self.producer_byte_rate is None and self.consumer_byte_rate is None


class QuotaOperation(msgspec.Struct, frozen=True):
    """One key of a quota is set; None: removed."""

    key: str
    value: float | None = None


class QuotaAlteration(msgspec.Struct, frozen=True):
    """What becomes of the quota of one entity."""

    entity: Entity
    operations: tuple[QuotaOperation, ...]


class AlterClientQuotas(msgspec.Struct, frozen=True, tag="AlterClientQuotas", tag_field="type", kw_only=True):
    """A client's AlterClientQuotas, forwarded once.

    `expected_version` is that of the one entity that is changed; 0: there is none yet.
    """

    correlation_id: int = 0
    alterations: tuple[QuotaAlteration, ...]
    validate_only: bool = False
    principal: str = ""
    expected_version: int | None = None


class QuotaResult(msgspec.Struct, frozen=True):
    """What became of one alteration."""

    entity: Entity
    error: ErrorCode = ErrorCode.NONE
    text: str = ""


class QuotaResults(msgspec.Struct, frozen=True, tag="QuotaResults", tag_field="type", kw_only=True):
    """Answers AlterClientQuotas, in the order of the request."""

    correlation_id: int
    results: tuple[QuotaResult, ...]


EXACT, OF_DEFAULT, OF_ANY = 0, 1, 2
"""How a filter of DescribeClientQuotas takes names: this one, the default, whichever."""


class QuotaFilter(msgspec.Struct, frozen=True):
    """Which quotas of a type are meant; `match` is the name of an exact one."""

    entity_type: str
    match_type: int
    match: str | None = None


class DescribeClientQuotas(
    msgspec.Struct, frozen=True, tag="DescribeClientQuotas", tag_field="type", kw_only=True
):
    """A client's DescribeClientQuotas; `strict`: an entity with other types than those named is left out."""

    correlation_id: int = 0
    filters: tuple[QuotaFilter, ...] = ()
    strict: bool = False


class ClientQuotas(msgspec.Struct, frozen=True, tag="ClientQuotas", tag_field="type", kw_only=True):
    """Answers DescribeClientQuotas."""

    correlation_id: int
    quotas: tuple[QuotaRow, ...] = ()
    error: ErrorCode = ErrorCode.NONE
    text: str = ""
