"""This room words CreateTopics: what became of each topic, and all configs of one that was made."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Any, Final

from muster.kafkawire.api_table import (
    ApiKey,
    build,
    encode_body,
    frame_reply,
    part,
    response_class,
)
from muster.kafkawire.fields import text
from muster.kafkawire.numbers import uvarint
from muster.kernel import topic_configs
from muster.kernel.config_descriptions import of_topic
from muster.kernel.config_kinds import BadConfig
from muster.kernel.config_levels import Levels
from muster.kernel.error_codes import ErrorCode
from muster.messages.link.to_broker import CreatedTopic

CONFIGS_ARE_TOLD_SINCE: Final = 5
"""Every version from this one on is flexible."""

_NO_CONFIGS: Final = b"\x01\x00"
"""The end of a topic without configs: an empty array, no tagged field."""


class CreatedTopics:
    """The answer to one CreateTopics; topics that set the same have their configs encoded once."""

    def __init__(self, version: int, levels: Levels) -> None:
        """`levels`: what holds for topics that set nothing."""
        self._version = version
        self._levels = levels
        self._encoded: dict[frozenset[tuple[str, str]], bytes] = {}
        self._refused: dict[tuple[ErrorCode, str], bytes] = {}
        """What stands behind the names of topics that were refused alike: thousands may be."""
        self._results: list[bytes] = []

    def add(self, answer: CreatedTopic, configs: Mapping[str, str | None]) -> None:
        """`configs`: what the request set; null beside no error would break Java's client."""
        if answer.error is not ErrorCode.NONE and answer.topic_id is None:
            self._results.append(text(answer.name, self._is_flexible) + self._why(answer))
            return
        result = self._result(answer.name, answer, ())
        if answer.error is ErrorCode.NONE and self._is_flexible:
            result = result.removesuffix(_NO_CONFIGS) + self._configs(configs)
        self._results.append(result)

    def frame(self, correlation_id: int, throttle: timedelta) -> bytes:
        """The whole answer."""
        body = encode_body(
            build(response_class(ApiKey.CREATE_TOPICS, self._version), throttle_time=throttle, topics=())
        )
        if self._version >= CONFIGS_ARE_TOLD_SINCE:
            start, end = body[: -len(_NO_CONFIGS)], b"\x00"
            count = uvarint(len(self._results) + 1)
        else:
            start, end = body[:-4], b""
            count = len(self._results).to_bytes(4, "big")
        whole = b"".join((start, count, *self._results, end))
        return frame_reply(ApiKey.CREATE_TOPICS, self._version, correlation_id, whole)

    @property
    def _is_flexible(self) -> bool:
        return self._version >= CONFIGS_ARE_TOLD_SINCE

    def _why(self, answer: CreatedTopic) -> bytes:
        """What stands behind the name of a topic that was refused: nothing but the error and why."""
        alike = answer.error, answer.text
        if alike not in self._refused:
            nobody = CreatedTopic(name="", error=answer.error, text=answer.text)
            self._refused[alike] = self._result("", nobody, ())[len(text("", self._is_flexible)) :]
        return self._refused[alike]

    def _configs(self, configs: Mapping[str, str | None]) -> bytes:
        """What stands behind the counts of a topic that sets these."""
        own = {key: _stored(key, value) for key, value in configs.items() if value is not None}
        alike = frozenset(own.items())
        if alike not in self._encoded:
            entry = part(response_class(ApiKey.CREATE_TOPICS, self._version), "CreatableTopicConfigs")
            told = tuple(
                entry(
                    name=one.name,
                    value=one.value,
                    read_only=False,
                    config_source=one.source.value,
                    is_sensitive=False,
                )
                for one in of_topic(own, self._levels)
            )
            nobody = CreatedTopic(name="")
            before = len(self._result("", nobody, ())) - len(_NO_CONFIGS)
            self._encoded[alike] = self._result("", nobody, told)[before:]
        return self._encoded[alike]

    def _result(self, name: str, answer: CreatedTopic, configs: tuple[Any, ...]) -> bytes:
        shape = response_class(ApiKey.CREATE_TOPICS, self._version)
        return encode_body(
            build(
                part(shape, "CreatableTopicResult"),
                name=name,
                topic_id=answer.topic_id,
                error_code=answer.error,
                error_message=answer.text or None,
                num_partitions=answer.partition_count,
                replication_factor=answer.replication_factor,
                configs=configs,
            )
        )


def _stored(key: str, value: str) -> str:
    """`value` as the controller has stored it; another release may take what this one does not know."""
    try:
        return topic_configs.checked(key, value)
    except BadConfig:
        return value
