"""This room words DescribeConfigs: entries are encoded once for all resources that are set alike.

Ten thousand topics of which few set anything are ten thousand names before the same bytes.
"""

import struct
from collections.abc import Collection, Iterable
from typing import Any, Final

from muster.kafkawire.api_table import (
    ApiKey,
    build,
    encode_body,
    frame_reply,
    is_flexible,
    part,
    response_class,
    shortened,
)
from muster.kafkawire.fields import NOT_THROTTLED
from muster.kafkawire.numbers import uvarint
from muster.kernel.config_descriptions import Description
from muster.kernel.config_levels import Effective, Source
from muster.kernel.error_codes import ErrorCode

MOST_ANSWER_BYTES: Final = 32 * 1024 * 1024
"""Of one answer; what would be behind it is refused, resource by resource."""

_HEAD: Final = struct.Struct(">h")
_KIND: Final = struct.Struct(">b")
_LENGTH: Final = struct.Struct(">h")


class DescribedConfigs:
    """The answer to one DescribeConfigs, result by result."""

    def __init__(
        self, version: int, correlation_id: int, *, with_synonyms: bool, with_documentation: bool
    ) -> None:
        self._version = version
        self._correlation_id = correlation_id
        self._with_synonyms = with_synonyms
        self._with_documentation = with_documentation
        self._flexible = is_flexible(ApiKey.DESCRIBE_CONFIGS, version)
        self._shape = response_class(ApiKey.DESCRIBE_CONFIGS, version)
        self._results: list[bytes] = []
        self._nothing = self._encoded(())
        self._size_bytes = 0

    @property
    def is_full(self) -> bool:
        """True if nothing more may be described."""
        return self._size_bytes >= MOST_ANSWER_BYTES

    def entries(self, described: Iterable[Description], keys: Collection[str] | None) -> bytes:
        """The entries of one resource as bytes for `add`; of `keys` alone unless there are none."""
        asked = frozenset(keys) if keys else None
        return self._encoded(tuple(self._entry(one) for one in described if not asked or one.name in asked))

    def add(self, kind: int, name: str, entries: bytes) -> None:
        """A resource that is described."""
        self._put(kind, name, ErrorCode.NONE, None, entries)

    def refuse(self, kind: int, name: str, error: ErrorCode, text: str) -> None:
        """A resource that is not."""
        self._put(kind, name, error, shortened(text), self._nothing)

    def frame(self) -> bytes:
        """The whole answer."""
        count = len(self._results)
        head = uvarint(count + 1) if self._flexible else struct.pack(">i", count)
        end = b"\x00" if self._flexible else b""
        body = b"".join((NOT_THROTTLED, head, *self._results, end))
        return frame_reply(ApiKey.DESCRIBE_CONFIGS, self._version, self._correlation_id, body)

    def _put(self, kind: int, name: str, error: ErrorCode, text: str | None, entries: bytes) -> None:
        head = _HEAD.pack(error) + self._text(text) + _KIND.pack(kind) + self._text(name)
        self._results.append(head + entries)
        self._size_bytes += len(head) + len(entries)

    def _text(self, text: str | None) -> bytes:
        if text is None:
            return b"\x00" if self._flexible else _LENGTH.pack(-1)
        encoded = text.encode()
        return (uvarint(len(encoded) + 1) if self._flexible else _LENGTH.pack(len(encoded))) + encoded

    def _encoded(self, entries: tuple[Any, ...]) -> bytes:
        """What stands behind the name of a result."""
        result = part(self._shape, "DescribeConfigsResult")
        alone = build(
            result, error_code=0, error_message=None, resource_type=0, resource_name="", configs=entries
        )
        before = _HEAD.size + len(self._text(None)) + _KIND.size + len(self._text(""))
        return encode_body(alone)[before:]

    def _entry(self, one: Description) -> Any:
        synonym = part(self._shape, "DescribeConfigsSynonym")
        said: Iterable[Effective] = one.said if self._with_synonyms else ()
        if not one.known.broker_name:
            # Only topics have it: no other name states its default.
            said = (by for by in said if by.source is not Source.DEFAULT)
        return build(
            part(self._shape, "DescribeConfigsResourceResult"),
            name=one.name,
            value=one.value,
            read_only=one.is_read_only,
            config_source=one.source.value,
            is_sensitive=False,
            synonyms=tuple(synonym(name=by.name, value=by.value, source=by.source.value) for by in said),
            config_type=one.known.kind.type.value,
            documentation=one.known.documentation if self._with_documentation else None,
        )
