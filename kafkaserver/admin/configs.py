"""This room answers DescribeConfigs, AlterConfigs and IncrementalAlterConfigs at every door.

What is set is told from what the door knows (design.md 8a rule 2); what is to be set the controller
decides (conformance 210).
"""

from collections import Counter
from collections.abc import Collection, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, repeat
from typing import Any, Final, Protocol

from kafkaserver.admin.asking import (
    Controller,
    ControllerUnreachable,
    TooLargeToForward,
    answer_of,
    portions,
    refusal,
)
from kafkaserver.admin.config_answers import DescribedConfigs
from kafkaserver.admin.outcomes import altered_configs
from kafkaserver.callers import OPERATE, VIEW, KafkaCaller, caller_of
from kafkaserver.later import Later
from kafkaserver.replies import Handler, Reply
from muster.kafkawire.api_table import ApiKey, RequestHeader, frame_reply, read_request
from muster.kernel.config_descriptions import of_broker, of_cluster, of_node, of_topic
from muster.kernel.config_levels import Levels, Source
from muster.kernel.error_codes import ErrorCode
from muster.kernel.topic_names import WHAT_CAN_NAME_A_TOPIC, can_name_a_topic
from muster.messages.link.configs import (
    AlterConfigs,
    AlteredConfigs,
    Change,
    ConfigChange,
    ConfigResult,
    ConfigResults,
    ResourceType,
)

CHANGED_AT_ONCE: Final = 250
"""Resources of one turn of the controller: whoever changes thousands waits for several."""

APPLIED_TIMEOUT_S: Final = 1.0
"""So long at most the answer to a change waits until this door knows of it."""

_SLICE: Final = 200
"""So many resources are described before the loop turns to others."""

_OPERATIONS: Final[Mapping[int, Change]] = {
    0: Change.SET,
    1: Change.DELETE,
    2: Change.APPEND,
    3: Change.SUBTRACT,
}
_LONGEST_ID: Final = 9

_NOT_HERE: Final[Mapping[int, str]] = {
    8: "log levels of brokers are not changed while they run; MUSTER_LOG_LEVEL says them when they start",
    16: "subscriptions of client metrics are not kept here",
    32: "groups have no configs of their own here; what nodes start with says how long sessions may be",
}
"""Resources that Kafka has: BROKER_LOGGER, CLIENT_METRICS, GROUP."""


@dataclass(frozen=True, slots=True)
class SetConfigs:
    """What is set for the resources that a door was asked about; those that do not exist are missing."""

    topics: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    brokers: Mapping[int, Levels] = field(default_factory=dict)
    nodes: Container[int] = ()
    """Ids of live nodes: clients are told of them as of brokers, and so ask about them, too."""
    levels: Levels = field(default_factory=Levels)
    """What holds at this door for topics that set nothing; its `cluster` is what the cluster sets."""


class KnownConfigs(Protocol):
    """What a door knows of configs."""

    async def look(self, topics: Collection[str], brokers: Collection[int]) -> SetConfigs:
        """What is set for these. Raises ControllerUnreachable: it cannot be read for now."""

    async def until_known(self, version: int, timeout_s: float) -> None:
        """Return when `look` tells what the turn of this version made true, or the time is over."""


class _Refused(Exception):
    """One resource is refused; the others go on."""

    def __init__(self, error: ErrorCode, text: str) -> None:
        super().__init__(text)
        self.error = error
        self.text = text


class ConfigHandlers:
    """Serves DescribeConfigs, AlterConfigs and IncrementalAlterConfigs."""

    def __init__(self, controller: Controller, known: KnownConfigs, later: Later) -> None:
        self._controller = controller
        self._known = known
        self._later = later
        self.handlers: Mapping[int, Handler] = {
            ApiKey.DESCRIBE_CONFIGS: self.describe,
            ApiKey.ALTER_CONFIGS: self.alter,
            ApiKey.INCREMENTAL_ALTER_CONFIGS: self.alter,
        }

    # -- DescribeConfigs

    def describe(self, header: RequestHeader, frame: memoryview, reply: Reply) -> None:
        """What holds for each resource that the caller may see. Raises MalformedFrame."""
        request = read_request(header, frame)
        work = self._describe(header, request, reply)
        self._later.start(reply, work, max(1, len(request.resources)), len(frame))

    async def _describe(self, header: RequestHeader, request: Any, reply: Reply) -> None:
        caller = caller_of(reply)
        answer = DescribedConfigs(
            header.api_version,
            header.correlation_id,
            with_synonyms=request.include_synonyms,
            with_documentation=getattr(request, "include_documentation", False),
        )
        topics = {
            one.resource_name
            for one in request.resources
            if one.resource_type == ResourceType.TOPIC and caller.may_describe(one.resource_name)
        }
        brokers = {
            broker_id
            for one in request.resources
            if one.resource_type == ResourceType.BROKER
            and (broker_id := _broker_id(one.resource_name)) is not None
        }
        encoded: dict[object, bytes] = {}
        known, why = SetConfigs(), ""
        try:
            known = await self._known.look(topics, brokers)
        except ControllerUnreachable as problem:
            why = str(problem)
        for number, one in enumerate(request.resources):
            if number % _SLICE == 0 and len(request.resources) > _SLICE:
                await self._later.turn()
            kind, name = one.resource_type, one.resource_name
            try:
                _check_described(caller, kind, name)
                if why:
                    raise _Refused(ErrorCode.REQUEST_TIMED_OUT, why)
                if answer.is_full:
                    raise _Refused(
                        ErrorCode.POLICY_VIOLATION, "the answer is full; ask about fewer at a time"
                    )
                answer.add(kind, name, _entries(answer, known, one, encoded))
            except _Refused as refused:
                answer.refuse(kind, name, refused.error, refused.text)
        reply.send(answer.frame())

    # -- AlterConfigs, IncrementalAlterConfigs

    def alter(self, header: RequestHeader, frame: memoryview, reply: Reply) -> None:
        """The controller's answers, in the order of the request. Raises MalformedFrame."""
        request = read_request(header, frame)
        work = self._alter(header, request, reply)
        self._later.start(reply, work, max(1, len(request.resources)), len(frame))

    async def _alter(self, header: RequestHeader, request: Any, reply: Reply) -> None:
        caller = caller_of(reply)
        is_whole = header.api_key == ApiKey.ALTER_CONFIGS
        # Here: the controller hears of them in several turns.
        times = Counter((one.resource_type, one.resource_name) for one in request.resources)
        asked: list[AlteredConfigs | _Refused] = []
        for one in request.resources:
            try:
                _check_altered(caller, one.resource_type, one.resource_name)
                if times[one.resource_type, one.resource_name] > 1:
                    raise _Refused(ErrorCode.INVALID_REQUEST, "the request names this resource twice")
                asked.append(_altered_configs(one, is_whole))
            except _Refused as refused:
                asked.append(refused)
        resources = [one for one in asked if isinstance(one, AlteredConfigs)]
        decided = await self._results(resources, caller.principal, validate_only=request.validate_only)
        results = []
        for one, outcome in zip(request.resources, asked, strict=True):
            said = outcome if isinstance(outcome, _Refused) else next(decided)
            results.append((one.resource_type, one.resource_name, said.error, said.text))
        body = altered_configs(header.api_key, header.api_version, results)
        reply.send(frame_reply(header.api_key, header.api_version, header.correlation_id, body))

    async def _results(
        self, resources: Sequence[AlteredConfigs], principal: str, *, validate_only: bool
    ) -> Iterator[ConfigResult]:
        """What the controller says of each, turn by turn while it answers, or why it was not asked."""
        results: list[ConfigResult] = []
        behind: Iterator[ConfigResult] = iter(())
        for some in portions(resources, CHANGED_AT_ONCE):
            wish = AlterConfigs(resources=some, validate_only=validate_only, principal=principal)
            try:
                results += (await answer_of(self._controller, wish, ConfigResults)).results
            except (ControllerUnreachable, TooLargeToForward) as problem:
                behind = repeat(_result(*refusal(problem, is_begun=bool(results))))
                break
        made = [one.version for one in results if one.error is ErrorCode.NONE]
        if made and not validate_only:
            # Whoever asks next at this door is told of it.
            await self._known.until_known(max(made), APPLIED_TIMEOUT_S)
        return chain(results, behind)


def _result(error: ErrorCode, text: str) -> ConfigResult:
    return ConfigResult(type=0, name="", error=error, text=text)


def _check_described(caller: KafkaCaller, kind: int, name: str) -> None:
    """Raise _Refused unless such a resource is described here, and this caller is told of it."""
    if kind == ResourceType.TOPIC:
        if not caller.may_describe(name):
            raise _Refused(ErrorCode.TOPIC_AUTHORIZATION_FAILED, "this token is not told about this topic")
    elif kind == ResourceType.BROKER:
        if not caller.may(VIEW, OPERATE):
            raise _Refused(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "this token may not view the cluster")
    else:
        raise _not_here(kind)


def _check_altered(caller: KafkaCaller, kind: int, name: str) -> None:
    """Raise _Refused unless this caller may change such a resource."""
    if kind == ResourceType.TOPIC:
        if not caller.may_create(name):
            raise _Refused(ErrorCode.TOPIC_AUTHORIZATION_FAILED, "this token may not change this topic")
    elif kind == ResourceType.BROKER:
        # What brokers and the cluster set holds for every topic; DescribeCluster tells it by the same rule.
        if not caller.may_operate_the_cluster:
            raise _Refused(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "this token may not change the cluster")
    else:
        raise _not_here(kind)


def _not_here(kind: int) -> _Refused:
    return _Refused(ErrorCode.INVALID_REQUEST, _NOT_HERE.get(kind, f"there is no resource of type {kind}"))


def _altered_configs(one: Any, is_whole: bool) -> AlteredConfigs:
    """One resource of a request, as the controller is asked. Raises _Refused."""
    changes = []
    for config in one.configs:
        change = Change.SET if is_whole else _OPERATIONS.get(config.config_operation)
        if change is None:
            text = f"there is no operation {config.config_operation}, which {config.name} is to be changed by"
            raise _Refused(ErrorCode.INVALID_REQUEST, text)
        changes.append(ConfigChange(config.name, change, config.value))
    return AlteredConfigs(
        type=one.resource_type, name=one.resource_name, changes=tuple(changes), is_whole=is_whole
    )


def _entries(answer: DescribedConfigs, known: SetConfigs, one: Any, encoded: dict[object, bytes]) -> bytes:
    """What holds for one resource. Raises _Refused. `encoded` has what was encoded for others like it."""
    name, keys = one.resource_name, one.configuration_keys
    wanted = tuple(keys) if keys else None
    if one.resource_type == ResourceType.TOPIC:
        configs = known.topics.get(name)
        if configs is None and not can_name_a_topic(name):
            raise _Refused(ErrorCode.INVALID_TOPIC_EXCEPTION, WHAT_CAN_NAME_A_TOPIC)
        if configs is None:
            raise _Refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no topic {name}")
        alike = frozenset(configs.items()), wanted
        if alike not in encoded:
            encoded[alike] = answer.entries(of_topic(configs, known.levels), wanted)
        return encoded[alike]
    alike_broker = name, wanted
    if alike_broker not in encoded:
        encoded[alike_broker] = answer.entries(_of_broker(known, name), wanted)
    return encoded[alike_broker]


def _of_broker(known: SetConfigs, name: str) -> Any:
    """A broker's whole; of all brokers, named "", what is set for them, as Kafka tells it."""
    if not name:
        cluster = Levels(cluster=known.levels.cluster, static=known.levels.static)
        return [one for one in of_cluster(cluster) if one.source is Source.CLUSTER]
    broker_id = _broker_id(name)
    if broker_id is None:
        raise _Refused(ErrorCode.INVALID_REQUEST, f"{name!r} is no broker's id")
    levels = known.brokers.get(broker_id)
    if levels is None and broker_id in known.nodes:
        return of_node(Levels(cluster=known.levels.cluster, static=known.levels.static))
    if levels is None:
        raise _Refused(ErrorCode.BROKER_ID_NOT_REGISTERED, f"there is no broker {broker_id}")
    return of_broker(levels)


def _broker_id(name: str) -> int | None:
    """The id that `name` says; None: it is none."""
    fits = name.isascii() and name.isdecimal() and len(name) <= _LONGEST_ID and name == str(int(name))
    return int(name) if fits else None
