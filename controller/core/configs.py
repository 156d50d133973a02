"""This room changes configs of topics, brokers and the cluster, key by key (conformance 210)."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Final, NamedTuple

import msgspec

from controller.core.draft import Draft
from controller.core.events import LinkId, Say
from controller.core.records import ConfigChanged
from controller.core.state import NOTHING_LOST
from controller.core.topics import FIRST_NODE_ID, Refused, check_name
from muster.kernel.config_kinds import BadConfig, Replicas, SomeOf, words_of
from muster.kernel.config_levels import Levels, candidates
from muster.kernel.error_codes import ErrorCode
from muster.kernel.topic_configs import (
    UNCLEAN_LEADER_ELECTION,
    ConfigKey,
    Scope,
    check_together,
    checked,
    found,
)
from muster.messages.link.configs import (
    AlterConfigs,
    AlteredConfigs,
    Change,
    ConfigChange,
    ConfigResult,
    ConfigResults,
    ResourceType,
)
from muster.messages.link.rows import EVERY_BROKER, NO_LEADER, PartitionRow, TopicRow

CLUSTER: Final = "cluster"
_LONGEST_ID: Final = 9


class _Resource(NamedTuple):
    """What has configs: how people call it, what is set now, at which version, and how it is written."""

    scope: Scope
    label: str
    configs: Mapping[str, str]
    version: int
    levels: Levels
    put: Callable[[dict[str, str]], None]
    partitions: Callable[[], Iterable[PartitionRow]]
    """Those that another config of it may concern."""

    @property
    def said(self) -> str:
        """How a sentence begins with it: a topic's name is written as it is."""
        return f"topic {self.label}" if self.scope is Scope.TOPIC else self.label


def alter(draft: Draft, link: LinkId, frame: AlterConfigs) -> None:
    """Change each resource that can be changed as a whole, and no other; the answer leaves with this turn."""
    times = Counter((one.type, one.name) for one in frame.resources)
    results = []
    for wanted in frame.resources:
        try:
            if times[wanted.type, wanted.name] > 1:
                raise Refused(ErrorCode.INVALID_REQUEST, "the request names this resource twice")
            version = _alter(draft, wanted, frame)
        except Refused as refused:
            results.append(_result(wanted, refused.error, refused.text))
        else:
            results.append(_result(wanted, version=version))
    answer = ConfigResults(correlation_id=frame.correlation_id, results=tuple(results))
    draft.replies.append(Say(link, answer))


def not_written(frame: AlterConfigs, why: str) -> ConfigResults:
    """The answer to a request whose turn could not be written."""
    text = f"{why}; nothing was changed"
    return ConfigResults(
        correlation_id=frame.correlation_id,
        results=tuple(_result(one, ErrorCode.UNKNOWN_SERVER_ERROR, text) for one in frame.resources),
    )


def _result(
    wanted: AlteredConfigs, error: ErrorCode = ErrorCode.NONE, text: str = "", version: int = 0
) -> ConfigResult:
    return ConfigResult(type=wanted.type, name=wanted.name, error=error, text=text, version=version)


def _alter(draft: Draft, wanted: AlteredConfigs, frame: AlterConfigs) -> int:
    """Change one resource; the version of its row from then on. Raises Refused."""
    if _unsets_of_a_node(wanted):
        return 0
    resource = _found(draft, wanted)
    expected = wanted.expected_version
    if expected is not None and expected != resource.version:
        text = f"{resource.said} is at version {resource.version} by now, and {expected} was looked at"
        raise Refused(ErrorCode.INVALID_UPDATE_VERSION, text)
    before, after = resource.configs, _after(resource, wanted)
    keys = [key for key in {**before, **after} if before.get(key) != after.get(key)]
    if frame.validate_only or not keys:
        return resource.version
    resource.put(after)
    draft.other_records += [
        ConfigChanged(resource.label, key, before.get(key), after.get(key), frame.principal) for key in keys
    ]
    if UNCLEAN_LEADER_ELECTION in keys:
        _look_for_leaders(draft, resource.partitions())
    return draft.version


def _unsets_of_a_node(wanted: AlteredConfigs) -> bool:
    """Clients are told of nodes as of brokers, and Kafka's tool clears throttles of all: nodes have none."""
    is_number = wanted.name.isascii() and wanted.name.isdecimal() and len(wanted.name) <= _LONGEST_ID
    if wanted.type != ResourceType.BROKER or not is_number or int(wanted.name) < FIRST_NODE_ID:
        return False
    return not wanted.is_whole and all(change.change is Change.DELETE for change in wanted.changes)


def _found(draft: Draft, wanted: AlteredConfigs) -> _Resource:
    if wanted.type == ResourceType.TOPIC:
        return _topic(draft, wanted.name)
    if wanted.type == ResourceType.BROKER:
        return _broker(draft, wanted.name)
    raise Refused(ErrorCode.INVALID_REQUEST, f"configs of resource type {wanted.type} are not known here")


def _topic(draft: Draft, name: str) -> _Resource:
    if not name:
        raise Refused(ErrorCode.INVALID_REQUEST, "what is set for all topics is set for all brokers")
    check_name(name)
    row = draft.topic_named_like(name)
    if row is None or row.name != name:
        raise Refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no topic {name}")
    put = partial(_put_topic, draft, row)
    partitions = partial(draft.partitions_of_topic, row.topic_id)
    return _Resource(Scope.TOPIC, name, row.configs, row.version, draft.levels(), put, partitions)


def _put_topic(draft: Draft, row: TopicRow, configs: dict[str, str]) -> None:
    draft.change_topic(msgspec.structs.replace(row, configs=configs))


def _broker(draft: Draft, name: str) -> _Resource:
    """One broker by its id, or the cluster by no name."""
    broker_id = EVERY_BROKER
    if name:
        broker_id = int(name) if name.isascii() and name.isdecimal() and len(name) <= _LONGEST_ID else -1
        # "01" is another name for 1, and one resource must not be named twice.
        if name != str(broker_id):
            raise Refused(ErrorCode.INVALID_REQUEST, f"{name!r} is no broker's id")
        if draft.broker(broker_id) is None:
            raise Refused(ErrorCode.BROKER_ID_NOT_REGISTERED, f"there is no broker {broker_id}")
    row, below = draft.broker_configs(broker_id), draft.levels()
    return _Resource(
        Scope.BROKER if name else Scope.CLUSTER,
        f"broker {broker_id}" if name else CLUSTER,
        row.configs,
        row.version,
        Levels(row.configs, below.cluster, below.static) if name else below,
        partial(draft.put_configs, broker_id),
        (lambda: ()) if name else draft.all_partitions,
    )


def _after(resource: _Resource, wanted: AlteredConfigs) -> dict[str, str]:
    """The configs as they would be. Raises Refused."""
    times = Counter(change.key for change in wanted.changes)
    if (twice := [key for key, count in times.items() if count > 1]) != []:
        raise Refused(ErrorCode.INVALID_REQUEST, f"config {twice[0]} is named twice")
    configs = {} if wanted.is_whole else dict(resource.configs)
    try:
        for change in wanted.changes:
            _apply(resource, change, configs)
        if resource.scope is Scope.TOPIC:
            check_together(configs)
    except BadConfig as bad:
        raise Refused(ErrorCode.INVALID_CONFIG, str(bad)) from bad
    return configs


def _apply(resource: _Resource, change: ConfigChange, configs: dict[str, str]) -> None:
    """Raises BadConfig, Refused."""
    key = change.key
    if change.change is Change.DELETE:
        # Also what is no config here: an older release may have let it in.
        configs.pop(key, None)
        return
    if change.value is None:
        raise Refused(ErrorCode.INVALID_REQUEST, f"config {key} is given no value")
    known = found(resource.scope, key)
    value = change.value
    if change.change is not Change.SET:
        if not isinstance(known.kind, SomeOf | Replicas):
            raise BadConfig(f"{key} is no list, and nothing can be added to it or taken from it")
        value = _with_or_without(_words_that_hold(resource, known), change)
    configs[key] = checked(key, value, resource.scope)


def _words_that_hold(resource: _Resource, known: ConfigKey) -> list[str]:
    topic = resource.configs if resource.scope is Scope.TOPIC else {}
    return words_of(candidates(known, topic, resource.levels)[0].value)


def _with_or_without(words: list[str], change: ConfigChange) -> str:
    stated = change.value or ""
    if change.change is Change.APPEND:
        # As Kafka reads it commas at the end say nothing; but where nothing else is said, an empty word is.
        return ",".join([*words, stated.rstrip(",")]) if stated.strip(",") or not stated else ",".join(words)
    named = words_of(stated)
    return ",".join(word for word in words if word not in named)


def _look_for_leaders(draft: Draft, rows: Iterable[PartitionRow]) -> None:
    """What nobody leads may have a leader by the new policy: as if its live replicas had just come back."""
    for row in rows:
        if row.leader == NO_LEADER:
            for broker_id in row.assigned:
                if broker_id in draft.memory.sessions:
                    draft.memory.returning.setdefault(broker_id, NOTHING_LOST)
