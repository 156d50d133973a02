"""This room is the REST door of configs: of a topic, of a broker, of the cluster; the controller decides."""

import re
from typing import Any, Final, TypeVar

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.permissions import BasePermission
from rest_framework.request import Request
from rest_framework.response import Response

from access.rest.conditions import IDEMPOTENCY_KEY, idempotency_key, if_match_parameter, not_a_tag, tag_of
from access.rest.permissions import MayOperate, MayView, caller_of, require_whole_cluster
from access.rest.problems import Problem
from access.rest.shapes import Int64Field, detail_schema, example
from access.rest.versions import versioned
from access.rest.views import RestView
from controller import set_configs
from controller.models import Broker, Topic
from controller.requests_api import AskedShape, ControllerRequestShape, ask, told
from controller.set_configs import SetConfigs
from muster.kernel.config_descriptions import Description
from muster.kernel.config_kinds import ConfigType
from muster.kernel.config_levels import Source
from muster.kernel.error_codes import ErrorCode
from muster.messages.link.configs import AlterConfigs, AlteredConfigs, Change, ConfigChange, ResourceType

KEYS_MAX: Final = 100
KEY_LENGTH: Final = 250
VALUE_LENGTH: Final = 10_000

_VERSION: Final = re.compile(
    r"(?:[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}-)?(\d{1,18})(?:\.\d{1,18}){0,3}"
)
"""An ETag of configs; its first number is the version of the row that a change is made on."""

_SOURCES: Final = {
    Source.TOPIC: "DYNAMIC_TOPIC_CONFIG",
    Source.BROKER: "DYNAMIC_BROKER_CONFIG",
    Source.CLUSTER: "DYNAMIC_DEFAULT_BROKER_CONFIG",
    Source.STATIC: "STATIC_BROKER_CONFIG",
    Source.DEFAULT: "DEFAULT_CONFIG",
}
"""As Kafka names them: topic, broker, cluster, environment, default."""

_SOURCE_CHOICES: Final = [(name, name) for name in _SOURCES.values()]
_TYPE_CHOICES: Final = [(one.name, one.name) for one in ConfigType]


class SynonymShape(serializers.Serializer[Any]):
    """One value that is said of a config, and where."""

    name = serializers.CharField()
    value = serializers.CharField(allow_blank=True)
    source = serializers.ChoiceField(choices=_SOURCE_CHOICES)  # type: ignore[assignment]


class ConfigShape(serializers.Serializer[Any]):
    """One config. `synonyms` are all values that are said of it, the one that holds first.

    `read_only`: it holds here and is set elsewhere.
    """

    name = serializers.CharField()
    value = serializers.CharField(allow_blank=True)
    source = serializers.ChoiceField(choices=_SOURCE_CHOICES)  # type: ignore[assignment]
    type = serializers.ChoiceField(choices=_TYPE_CHOICES)
    takes = serializers.CharField()
    read_only = serializers.BooleanField()  # type: ignore[assignment]
    documentation = serializers.CharField()
    synonyms = SynonymShape(many=True)


@example(
    configs=[
        {
            "name": "retention.ms",
            "value": "86400000",
            "source": "DYNAMIC_TOPIC_CONFIG",
            "type": "LONG",
            "takes": "a whole number from -1 to 9223372036854775807",
            "read_only": False,
            "documentation": "Segments whose newest record is older are deleted; -1: none is.",
            "synonyms": [
                {"name": "retention.ms", "value": "86400000", "source": "DYNAMIC_TOPIC_CONFIG"},
                {"name": "log.retention.ms", "value": "604800000", "source": "DEFAULT_CONFIG"},
            ],
        }
    ],
    version=88001,
)
class ConfigsShape(serializers.Serializer[Any]):
    """All configs of one resource; `version` is that of what was set for it, 0: nothing ever was."""

    configs = ConfigShape(many=True)
    version = Int64Field()


class _Value(serializers.CharField):
    """A value as text, as Kafka has it."""

    def __init__(self) -> None:
        super().__init__(max_length=VALUE_LENGTH, allow_blank=True, trim_whitespace=False)


@example(
    set={"retention.ms": "86400000"},
    unset=["segment.bytes"],
    reason="a day is enough",
)
class ConfigChangesShape(AskedShape):
    """What is to be another: `set` and `unset` keys; `append` words to a list, `subtract` them from it.

    All of it, or nothing. `validate_only`: only judge.
    """

    set = serializers.DictField(child=_Value(), required=False)
    unset = serializers.ListField(
        child=serializers.CharField(max_length=KEY_LENGTH), max_length=KEYS_MAX, required=False
    )
    append = serializers.DictField(child=_Value(), required=False)
    subtract = serializers.DictField(child=_Value(), required=False)
    validate_only = serializers.BooleanField(default=False)

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        attrs = super().validate(attrs)
        count = sum(len(attrs.get(how, ())) for how in ("set", "unset", "append", "subtract"))
        if not 1 <= count <= KEYS_MAX:
            raise serializers.ValidationError({"set": f"Name 1 to {KEYS_MAX} keys to change."})
        return attrs

    def wish(self, kind: ResourceType, name: str, expected_version: int | None) -> AlterConfigs:
        """What is asked of the controller, when it is valid."""
        stated = self.validated_data
        changes = [
            ConfigChange(key, how, value)
            for field, how in (("set", Change.SET), ("append", Change.APPEND), ("subtract", Change.SUBTRACT))
            for key, value in stated.get(field, {}).items()
        ]
        changes += [ConfigChange(key, Change.DELETE) for key in stated.get("unset", ())]
        altered = AlteredConfigs(
            type=kind, name=name, changes=tuple(changes), expected_version=expected_version
        )
        return AlterConfigs(resources=(altered,), validate_only=stated["validate_only"])


_DECIDED = (
    "The controller decides it, and brokers obey it at once. Who does not hear its answer within 5 s gets 202"
    " and the address where it will stand. 200: it was done, or only judged (`validate_only`)."
)
_View = TypeVar("_View", bound=type[RestView])


def _documented(what: str, of: str, described: str) -> Any:
    """Documents both verbs of the configs of `what`."""

    def wrap(view: _View) -> _View:
        parameters = [if_match_parameter(f"the configs of {of}"), IDEMPOTENCY_KEY]
        view.get = detail_schema(f"Read the configs of {what}", ConfigsShape)(view.get)  # type: ignore[attr-defined]
        view.patch = extend_schema(  # type: ignore[attr-defined]
            operation_id=f"change_the_configs_of_{what.replace(' ', '_')}",
            summary=f"Change the configs of {what}",
            description=f"{_DECIDED} {described}",
            parameters=parameters,
            request=ConfigChangesShape,
            responses={200: ControllerRequestShape, 202: ControllerRequestShape},
        )(view.patch)  # type: ignore[attr-defined]
        return view

    return wrap


class _Configs(RestView):
    """Configs of one resource: viewers read them, operators change them."""

    def get_permissions(self) -> list[BasePermission]:
        return [MayOperate() if self.request.method == "PATCH" else MayView()]


@_documented("a topic", "the topic", "What the topic sets goes before what brokers and the cluster set.")
class TopicConfigs(_Configs):
    """Configs of a topic."""

    def get(self, request: Request, topic: str) -> Response:
        return _answered(request, _of_topic(topic))

    def patch(self, request: Request, topic: str) -> Response:
        return _changed(request, ResourceType.TOPIC, topic, "the topic", lambda: _of_topic(topic))


@_documented("a broker", "the broker", "What one broker sets holds for its own logs, and for no other's.")
class BrokerConfigs(_Configs):
    """Configs of a broker."""

    def get(self, request: Request, broker_id: int) -> Response:
        return _answered(request, _of_broker(broker_id))

    def patch(self, request: Request, broker_id: int) -> Response:
        require_whole_cluster(caller_of(request))
        of = str(broker_id)
        return _changed(request, ResourceType.BROKER, of, "the broker", lambda: _of_broker(broker_id))


@_documented("the cluster", "the cluster", "It holds for all brokers, and for topics that set nothing.")
class ClusterConfigs(_Configs):
    """Configs of the cluster."""

    def get(self, request: Request) -> Response:
        return _answered(request, set_configs.of_cluster())

    def patch(self, request: Request) -> Response:
        require_whole_cluster(caller_of(request))
        return _changed(request, ResourceType.BROKER, "", "the cluster", set_configs.of_cluster)


def _of_topic(name: str) -> SetConfigs:
    """Raises Problem."""
    found = Topic.objects.filter(name=name).first() if "\x00" not in name else None
    if found is None:
        raise Problem(404, "There is no such topic.", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    return set_configs.of_topic(found)


def _of_broker(broker_id: int) -> SetConfigs:
    """Raises Problem."""
    found = Broker.objects.filter(broker_id=broker_id, broker_epoch__gt=0) if broker_id < 2**31 else None
    broker = found.first() if found is not None else None
    if broker is None:
        raise Problem(404, "There is no such broker.", ErrorCode.BROKER_ID_NOT_REGISTERED)
    return set_configs.of_broker(broker)


def _answered(request: Request, found: SetConfigs) -> Response:
    return versioned(request, _shown(found), found.tag)


def _changed(request: Request, kind: ResourceType, name: str, what: str, now: Any) -> Response:
    caller, key = caller_of(request), idempotency_key(request)
    expected = _expected_version(request, f"the configs of {what}")
    shape = ConfigChangesShape(data=request.data)
    shape.is_valid(raise_exception=True)
    row = ask(shape.wish(kind, name, expected), caller, shape.validated_data["reason"], key)

    def current() -> tuple[dict[str, Any], str]:
        found: SetConfigs = now()
        return _shown(found), found.tag

    return told(row, made=lambda: {"ETag": f'"{current()[1]}"'}, current=current)


def _expected_version(request: Request, what: str) -> int | None:
    """The version that If-Match names; None: any. Raises Problem."""
    said = tag_of(request, what)
    if said is None:
        return None
    tag = _VERSION.fullmatch(said)
    if tag is None:
        raise not_a_tag(what)
    return int(tag[1])


def _shown(found: SetConfigs) -> dict[str, Any]:
    return {"configs": [_config(one) for one in found.descriptions], "version": found.version}


def _config(one: Description) -> dict[str, Any]:
    return {
        "name": one.name,
        "value": one.value,
        "source": _SOURCES[one.source],
        "type": one.known.kind.type.name,
        "takes": str(one.known.kind),
        "read_only": one.is_read_only,
        "documentation": one.known.documentation,
        "synonyms": [
            {"name": said.name, "value": said.value, "source": _SOURCES[said.source]} for said in one.said
        ],
    }
