"""This room is the REST door of the past: a topic as it was at a moment, one partition change by change."""

from datetime import UTC, datetime, timedelta
from typing import Any, Final

from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from access.filters import moment_filter
from access.rest.paging import PageRequest, page_response
from access.rest.problems import Problem
from access.rest.shapes import Int32Field, Int64Field, example, lists
from access.rest.views import RestView
from controller import history
from controller.models import Partition
from muster.kernel.error_codes import ErrorCode
from runtime import database_clock

_STATES = ("known", "not-created", "not-known")
_AS_OF = moment_filter("as_of", "The moment, in UTC if it names no zone; without it: now.")
_CLOCKS_DIFFER: Final = timedelta(minutes=1)
"""Whoever asks of the very moment may have a clock that is ahead."""

_PRESENT: Final = datetime.max.replace(tzinfo=UTC)
"""Behind each turn, also where the clock of the database is ahead of this host's, or was once."""


@example(
    partition=3,
    version=88015,
    at="2026-11-21T03:12:41Z",
    cause="broker 2 was silent",
    node="node-1",
    replicas=[2, 1, 3],
    adding=[],
    removing=[],
    leader=1,
    leader_epoch=9,
    isr=[1, 3],
    loss="",
)
class PartitionChangeShape(serializers.Serializer[Any]):
    """A partition as one turn of the journal left it; `leader` null: nobody led.

    `loss`: why committed records may have been lost by it; empty: they were not.
    """

    partition = Int32Field()
    version = Int64Field()
    at = serializers.DateTimeField()
    cause = serializers.CharField(allow_blank=True)
    node = serializers.CharField(allow_blank=True)
    replicas = serializers.ListField(child=Int32Field())
    adding = serializers.ListField(child=Int32Field())
    removing = serializers.ListField(child=Int32Field())
    leader = Int32Field(allow_null=True)
    leader_epoch = Int32Field()
    isr = serializers.ListField(child=Int32Field())
    loss = serializers.CharField(allow_blank=True)


@example(
    partition=3,
    topic_id="4f6c1c57-58a0-4d1c-8b53-6b3a0f5b8f11",
    state="known",
    since="2026-11-21T03:12:41Z",
    version=88015,
    replicas=[2, 1, 3],
    adding=[],
    removing=[],
    leader=1,
    leader_epoch=9,
    isr=[1, 3],
    removed_at=None,
)
class PartitionThenShape(serializers.Serializer[Any]):
    """A partition as it was at a moment. `not-known`: the journal no longer tells, or it changed too often.

    `since`: it had been so from then on. `removed_at`: it, or its topic, is gone since; another partition may
    have its number now. `leader` null: nobody led, or the state is not `known`.
    """

    partition = Int32Field()
    topic_id = serializers.UUIDField()
    state = serializers.ChoiceField(choices=[(one, one) for one in _STATES])
    since = serializers.DateTimeField(allow_null=True)
    version = Int64Field(allow_null=True)
    replicas = serializers.ListField(child=Int32Field())
    adding = serializers.ListField(child=Int32Field())
    removing = serializers.ListField(child=Int32Field())
    leader = Int32Field(allow_null=True)
    leader_epoch = Int32Field(allow_null=True)
    isr = serializers.ListField(child=Int32Field())
    removed_at = serializers.DateTimeField(allow_null=True)


class TopicHistory(RestView):
    """Leader, ISR and replicas of the partitions of a topic at a moment; of deleted topics, too."""

    @lists("List partitions as of a moment", PartitionThenShape, _AS_OF)
    def get(self, request: Request, page: PageRequest, topic: str) -> Response:
        moment = page.filters.get("as_of") or _PRESENT
        if _PRESENT > moment > database_clock.now() + _CLOCKS_DIFFER:
            # What is now would be told as what is then.
            raise Problem(400, "as_of has not come yet; leave it out for now.", ErrorCode.INVALID_REQUEST)
        then = history.topic_then(topic, moment) if "\x00" not in topic else None
        if then is None:
            text = "There is no such topic, and there was none at that moment."
            raise Problem(404, text, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        first = page.after[0] + 1 if page.after else 0
        numbers = range(first, min(first + page.limit + 1, then.partition_count))
        rows = history.as_of(then.topic_id, numbers, moment, then.removals)
        born = then.was_born(moment)
        return page_response(
            request, page, rows, lambda row: [row.partition], lambda row: _then_shown(then, row, born=born)
        )


class PartitionHistory(RestView):
    """What became of a partition, newest first, as far back as the journal tells."""

    @lists("List changes of a partition", PartitionChangeShape)
    def get(self, request: Request, page: PageRequest, topic: str, partition: int) -> Response:
        fits = "\x00" not in topic and partition < 2**31
        found = Partition.objects.filter(topic__name=topic, partition=partition).first() if fits else None
        if found is None:
            raise Problem(404, "There is no such partition.", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        version = page.after[0] if page.after else found.version
        changes = history.changes_of(found.topic_id, partition, version, page.limit + 1)
        return page_response(request, page, changes, lambda change: [change.before], _change_shown)


def _then_shown(then: history.TopicThen, row: history.Then, *, born: bool) -> dict[str, Any]:
    was = row.was
    unborn = row.unborn or (was is None and not born)
    return {
        "partition": row.partition,
        "topic_id": str(then.topic_id),
        "state": "known" if was else "not-created" if unborn else "not-known",
        "since": was.at if was else None,
        "version": was.version if was else None,
        "replicas": list(was.assigned) if was else [],
        "adding": list(was.adding) if was else [],
        "removing": list(was.removing) if was else [],
        "leader": was.leader if was and not was.offline else None,
        "leader_epoch": was.leader_epoch if was else None,
        "isr": list(was.isr) if was else [],
        "removed_at": row.gone_at,
    }


def _change_shown(change: history.Change) -> dict[str, Any]:
    return {
        "partition": change.partition,
        "version": change.version,
        "at": change.at,
        "cause": change.cause,
        "node": change.node,
        "replicas": list(change.assigned),
        "adding": list(change.adding),
        "removing": list(change.removing),
        "leader": None if change.offline else change.leader,
        "leader_epoch": change.leader_epoch,
        "isr": list(change.isr),
        "loss": change.loss,
    }
