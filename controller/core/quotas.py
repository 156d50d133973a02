"""This room decides about client quotas: who may send and fetch how much (KIP-546); brokers obey them."""

from collections import Counter
from typing import Final

import msgspec

from controller.core.draft import Draft
from controller.core.events import LinkId, Say
from muster.kernel.client_quotas import (
    CLIENT_ID,
    CONSUMER_BYTE_RATE,
    DEFAULT,
    ENTITY_TYPES,
    PRODUCER_BYTE_RATE,
    USER,
    BadQuota,
    checked_name,
    checked_rate,
)
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
    QuotaKey,
    QuotaResult,
    QuotaResults,
    QuotaRow,
)

MOST_QUOTAS: Final = 10_000
"""Entities that have one: every broker is told all of them in a snapshot."""

_IP: Final = "ip"
"""A type of entity that Kafka has."""

_FIELDS: Final = {PRODUCER_BYTE_RATE: "producer_byte_rate", CONSUMER_BYTE_RATE: "consumer_byte_rate"}


class _Refused(Exception):
    def __init__(self, error: ErrorCode, text: str) -> None:
        super().__init__(text)
        self.error = error


def alter(draft: Draft, link: LinkId, frame: AlterClientQuotas) -> None:
    """Change each entity's quota, or say why not; one that is refused leaves the others alone."""
    results = []
    drafted = dict(draft.quotas)
    # Counted once: ten thousand for each of thousands held the loop for seconds.
    count = len(draft.all_quotas())
    times = Counter(frozenset(one.entity) for one in frame.alterations)
    for alteration in frame.alterations:
        try:
            if times[frozenset(alteration.entity)] > 1:
                raise _Refused(ErrorCode.INVALID_REQUEST, "the request names this entity twice")
            row = _altered(draft, alteration, frame.expected_version, count)
        except _Refused as refused:
            results.append(QuotaResult(alteration.entity, refused.error, str(refused)))
            continue
        if row is not None:
            count += (draft.quota(row.key) is None) - row.is_empty
            draft.put_quota(row)
        results.append(QuotaResult(alteration.entity))
    if frame.validate_only:
        draft.quotas = drafted
    draft.replies.append(Say(link, QuotaResults(correlation_id=frame.correlation_id, results=tuple(results))))


def not_written(frame: AlterClientQuotas, why: str) -> QuotaResults:
    """The answer to a request whose turn could not be written."""
    text = f"{why}; nothing was changed"
    results = tuple(
        QuotaResult(one.entity, ErrorCode.UNKNOWN_SERVER_ERROR, text) for one in frame.alterations
    )
    return QuotaResults(correlation_id=frame.correlation_id, results=results)


def describe(draft: Draft, link: LinkId, frame: DescribeClientQuotas) -> None:
    """Answer which quotas there are of the entities that the filters name."""
    try:
        filters = _checked(frame.filters)
    except _Refused as refused:
        answer = ClientQuotas(correlation_id=frame.correlation_id, error=refused.error, text=str(refused))
    else:
        found = (row for row in draft.all_quotas() if _is_meant(row.key, filters, frame.strict))
        answer = ClientQuotas(correlation_id=frame.correlation_id, quotas=tuple(found))
    draft.replies.append(Say(link, answer))


def _altered(
    draft: Draft, alteration: QuotaAlteration, expected_version: int | None, count: int
) -> QuotaRow | None:
    """The quota as it is to be; None: as it is. `count`: how many there are. Raises _Refused."""
    try:
        key = _key_of(alteration.entity)
        changes = {
            _FIELDS.get(one.key, one.key): None if one.value is None else checked_rate(one.key, one.value)
            for one in alteration.operations
        }
    except BadQuota as bad:
        raise _Refused(ErrorCode.INVALID_REQUEST, str(bad)) from bad
    if len(changes) < len(alteration.operations):
        raise _Refused(ErrorCode.INVALID_REQUEST, "one key is named twice")
    known = draft.quota(key)
    version = 0 if known is None else known.version
    if expected_version not in (None, version):
        text = f"the quota is of version {version} now, and was to be changed as of {expected_version}"
        if known is None:
            text = "there is no such quota any more"
        elif expected_version == 0:
            text = "there is a quota for it already"
        raise _Refused(ErrorCode.INVALID_UPDATE_VERSION, text)
    before = known or QuotaRow(*key)
    # A key that is not set may be removed, whatever it is called: it is not there afterwards.
    rates = {name: rate for name, rate in changes.items() if name in _FIELDS.values()}
    row = msgspec.structs.replace(before, **rates)
    if row == before:
        return None
    if known is None and count >= MOST_QUOTAS:
        raise _Refused(ErrorCode.POLICY_VIOLATION, f"{MOST_QUOTAS} users and client ids have quotas already")
    return msgspec.structs.replace(row, version=draft.version)


def _key_of(entity: Entity) -> QuotaKey:
    """Raises BadQuota for what is no user, no client id, and not both of them."""
    named = dict(entity)
    if not entity or len(named) < len(entity):
        raise BadQuota(f"an entity names {' or '.join(ENTITY_TYPES)}, each at most once")
    names = {entity_type: checked_name(entity_type, name) for entity_type, name in entity}
    return names.get(USER), names.get(CLIENT_ID)


def _checked(filters: tuple[QuotaFilter, ...]) -> dict[str, QuotaFilter]:
    """By type; raises _Refused for what cannot be asked."""
    named = {one.entity_type: one for one in filters}
    if len(named) < len(filters):
        raise _Refused(ErrorCode.INVALID_REQUEST, "a filter names a type of entity twice")
    for one in filters:
        if not one.entity_type or (one.entity_type == _IP and len(filters) > 1):
            text = f"a filter names a type of entity, and {_IP} beside no other"
            raise _Refused(ErrorCode.INVALID_REQUEST, text)
        if one.entity_type not in ENTITY_TYPES:
            text = f"quotas are set for {' and '.join(ENTITY_TYPES)}, not for {one.entity_type!r}"
            raise _Refused(ErrorCode.UNSUPPORTED_VERSION, text)
        if one.match_type not in (EXACT, OF_DEFAULT, OF_ANY) or (one.match_type == EXACT) != (
            one.match is not None
        ):
            raise _Refused(ErrorCode.INVALID_REQUEST, f"no way to filter a {one.entity_type}")
    return named


def _is_meant(key: QuotaKey, filters: dict[str, QuotaFilter], strict: bool) -> bool:
    for entity_type, name in zip(ENTITY_TYPES, key, strict=True):
        wanted = filters.get(entity_type)
        if wanted is None:
            if strict and name is not None:
                return False
        elif name is None or (wanted.match_type != OF_ANY and name != _name_of(wanted)):
            return False
    return True


def _name_of(wanted: QuotaFilter) -> str | None:
    """As the rows have it; None: an empty name, which is nobody's."""
    return (wanted.match or None) if wanted.match_type == EXACT else DEFAULT
