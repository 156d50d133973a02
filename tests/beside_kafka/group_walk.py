"""This room walks a classic group at random, from a seed, at Muster and at Apache Kafka in step.

Four members join, synchronise, beat, commit, leave; some state ids, generations, instances and protocols that
are wrong. Nothing runs out within a walk: what time does is for the simulation. Answers must be the same, but
for ids and generations, which are compared by what they stand for, and what docs/deviations.md says.
"""

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Final

from muster.kafkawire.api_table import ApiKey, build, part, request_class
from muster.kernel.error_codes import ErrorCode
from tests.beside_kafka.doors import HUNG_UP, Door, Question, differences, settle

MINUTES: Final = timedelta(minutes=20)
NO_GENERATION: Final = (-1, -1)
MUSTERS_PARTING: Final = (ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.UNKNOWN_MEMBER_ID)
"""A parked request whose member asks again, or leaves, is answered so; Kafka forgets it (deviations)."""

SUPPORTED: Final = (("range", "round"), ("round", "range"), ("range",), ("range", "round", "sticky"))

Make = Callable[[int], Any]


@dataclass
class Seat:
    """One of those who take part; `member` is what both call it, `generations` what each told it."""

    instance: str | None
    member: str = ""
    generations: tuple[int, int] = NO_GENERATION
    leads: bool = False
    protocols: tuple[tuple[str, bytes], ...] = ()


@dataclass
class Step:
    """What was asked at both doors."""

    text: str
    asked: tuple[Question, Question]
    seat: Seat | None = None
    parks: bool = False
    heard: Any = None

    def __str__(self) -> str:
        return f"{self.text} -> {'waits' if self.heard is None else self.heard}"


class Parted(Exception):
    """Both chose differently where Kafka chooses by chance: the walk ends."""


@dataclass
class GroupWalk:
    """One group; `doors` are its coordinators', Muster's first."""

    doors: tuple[Door, Door]
    group: str
    topic: str
    random: random.Random
    steps: list[Step] = field(default_factory=list)
    seats: list[Seat] = field(default_factory=lambda: [Seat(None), Seat(None), Seat("one"), Seat("two")])
    _names: tuple[dict[str, str], dict[str, str]] = field(default_factory=lambda: ({}, {}))
    _joined: set[str] = field(default_factory=set)
    _waiting: list[Step] = field(default_factory=list)
    _protocol: str | None = None
    _members: list[str] = field(default_factory=list)

    def walk(self, steps: int) -> list[str]:
        """The differences of the first step that has any; none: all were alike."""
        try:
            for _ in range(steps):
                found = self._step()
                if found:
                    return found
        except Parted:
            pass
        return []

    # -- one step

    def _step(self) -> list[str]:
        ask = self.random.choices(
            (self._join, self._sync, self._beat, self._leave, self._commit, self._fetch, self._describe,
             self._delete, self._delete_offsets),
            (30, 26, 12, 6, 8, 4, 6, 1, 1),
        )[0]  # fmt: skip
        step = ask(self.random.choice(self.seats))
        if step is None:
            return []
        self.steps.append(step)
        self._waiting.append(step)
        settle(self.doors, lambda: [one.asked for one in self._waiting if one is step or one.parks])
        return [line for one in list(self._waiting) for line in self._judge(one, step)]

    def _judge(self, one: Step, last: Step) -> Iterator[str]:
        ours, theirs = (question.answer for question in one.asked)
        if ours is None and theirs is None:
            if not one.parks:
                yield f"{one.text}: no answer"
            return
        if ours is None or theirs is None:
            if ours is not None and one is not last and ours.get("error_code") in MUSTERS_PARTING:
                self._waiting.remove(one)
            else:
                who = "Kafka" if ours is None else "Muster"
                yield f"{one.text}: answered by {who} alone: {ours or theirs}"
            return
        self._waiting.remove(one)
        if one.seat is not None:
            self._learn(one.seat, ours, theirs)
        one.heard, expected = self._told(0, ours), self._told(1, theirs)
        for line in differences(one.heard, expected):
            yield f"{one.text}: {line}"

    def _learn(self, seat: Seat, ours: Any, theirs: Any) -> None:
        """What a Join told: an id, perhaps a generation."""
        if HUNG_UP in ours or HUNG_UP in theirs or ours["error_code"] != theirs["error_code"]:
            return
        error, ids = ours["error_code"], (ours["member_id"], theirs["member_id"])
        if error not in (ErrorCode.NONE, ErrorCode.MEMBER_ID_REQUIRED):
            return
        seat.member = self._names[0].get(ids[0]) or f"member {len(self._names[0])}"
        for names, real in zip(self._names, ids, strict=True):
            names.setdefault(real, seat.member)
        if error:
            return
        self._joined.add(seat.member)
        seat.generations = ours["generation_id"], theirs["generation_id"]
        seat.leads = ours["leader"] == ours["member_id"]
        self._protocol = ours["protocol_name"]
        if self._protocol != theirs["protocol_name"]:
            raise Parted("votes were equal")
        leader, other = (
            names.get(told["leader"]) for names, told in zip(self._names, (ours, theirs), strict=True)
        )
        if leader is not None and other is not None and leader != other:
            raise Parted("another leader is as good")
        if seat.leads:
            self._members = [self._names[0].get(one["member_id"], "?") for one in ours["members"]]

    def _told(self, door: int, value: Any) -> Any:
        """What an answer says, by names that both share."""
        if isinstance(value, list):
            # Kafka tells members and partitions in any order.
            return sorted((self._told(door, one) for one in value), key=str)
        if isinstance(value, str):
            is_an_id = value.count("-") >= 5
            return self._names[door].get(value, "an id" if is_an_id else value)
        if not isinstance(value, dict):
            return value
        if value.get("error_code") == ErrorCode.UNKNOWN_SERVER_ERROR:
            return ErrorCode.UNKNOWN_SERVER_ERROR
        told = {
            name: self._told(door, one)
            for name, one in value.items()
            if name not in ("throttle_time", "error_message", "client_host")
        }
        if told.get("generation_id", -1) >= 0:
            told["generation_id"] = "a generation"
        if "group_state" in told and told["group_state"] != "Stable":
            for member in told["members"]:
                member["member_assignment"] = b""
        return told

    # -- what is asked

    def _claimed(self, seat: Seat) -> tuple[str, tuple[int, int], str | None]:
        """The member, its generation and instance: mostly its own."""
        roll, member = self.random.random(), seat.member
        if roll < 0.04:
            member = self.random.choice(self.seats).member
        elif roll < 0.06:
            member = ""
        elif roll < 0.08:
            member = "nobody's"
        elif roll < 0.1 and self._names[0]:
            member = self.random.choice(list(self._names[0].values()))
        roll, generations = self.random.random(), seat.generations
        if roll < 0.05:
            by = self.random.choice((-1, 1))
            generations = (generations[0] + by, generations[1] + by)
        elif roll < 0.06:
            generations = NO_GENERATION
        roll, instance = self.random.random(), seat.instance
        if roll < 0.03:
            instance = None
        elif roll < 0.05:
            instance = self.random.choice(("one", "two", "three"))
        return member, generations, instance

    def _id(self, door: int, member: str) -> str:
        return next((real for real, name in self._names[door].items() if name == member), member)

    def _ask(self, text: str, key: ApiKey, version: int, make: Make, **more: Any) -> Step:
        ours, theirs = (door.ask(key, version, make(number)) for number, door in enumerate(self.doors))
        return Step(f"#{len(self.steps)} {key.name} {version} {text}", (ours, theirs), **more)

    def _join(self, seat: Seat) -> Step:
        version = self.random.choice((9, 9, 5, 4, *range(9)))
        member, _, instance = self._claimed(seat)
        instance = instance if version >= 5 else None
        protocols = seat.protocols
        if not protocols or member != seat.member or self.random.random() < 0.25:
            names = self.random.choice(
                (("range", "round"), ("round", "range"), ("range",), ("range", "round", "sticky"))
            )
            protocols = tuple((name, bytes([self.random.randrange(3)])) for name in names)
        kind = self.random.choice(("consumer",) * 50 + ("connect", ""))
        shape = request_class(ApiKey.JOIN_GROUP, version)
        protocol = part(shape, "JoinGroupRequestProtocol")

        def make(door: int) -> Any:
            return build(
                shape, group_id=self.group, session_timeout=MINUTES, rebalance_timeout=MINUTES,
                member_id=self._id(door, member), group_instance_id=instance, protocol_type=kind, reason=None,
                protocols=tuple(build(protocol, name=name, metadata=said) for name, said in protocols),
            )  # fmt: skip

        seat.protocols = protocols
        text = f"{member!r} as {instance} {kind} {protocols}"
        return self._ask(text, ApiKey.JOIN_GROUP, version, make, seat=seat, parks=True)

    def _sync(self, seat: Seat) -> Step:
        version = self.random.choice((5, 5, 5, *range(5)))
        member, generations, instance = self._claimed(seat)
        instance = instance if version >= 3 else None
        agreed = ("consumer", self._protocol)
        stated = ((None, None), ("connect", self._protocol), ("consumer", "round"))
        kind, name = self.random.choice((agreed,) * 12 + stated)
        gives = seat.leads or self.random.random() < 0.04
        members = self._members if self.random.random() < 0.9 else self._members[:1]
        mark = self.random.randrange(256)
        shape = request_class(ApiKey.SYNC_GROUP, version)
        assigned = part(shape, "SyncGroupRequestAssignment")

        def make(door: int) -> Any:
            given = [
                build(assigned, member_id=self._id(door, one), assignment=bytes((mark, number)))
                for number, one in enumerate(members if gives else ())
            ]
            return build(
                shape, group_id=self.group, generation_id=generations[door], member_id=self._id(door, member),
                group_instance_id=instance, protocol_type=kind, protocol_name=name, assignments=tuple(given),
            )  # fmt: skip

        text = f"{member!r} as {instance} in {generations} {kind} {name} gives {members if gives else None}"
        return self._ask(text, ApiKey.SYNC_GROUP, version, make, parks=True)

    def _beat(self, seat: Seat) -> Step:
        version = self.random.choice((4, 4, 3, 2, 1, 0))
        member, generations, instance = self._claimed(seat)
        instance = instance if version >= 3 else None
        shape = request_class(ApiKey.HEARTBEAT, version)

        def make(door: int) -> Any:
            return build(
                shape, group_id=self.group, generation_id=generations[door], member_id=self._id(door, member),
                group_instance_id=instance,
            )  # fmt: skip

        return self._ask(f"{member!r} as {instance} in {generations}", ApiKey.HEARTBEAT, version, make)

    def _leave(self, seat: Seat) -> Step | None:
        version = self.random.choice((5, 5, 4, 3, 1, 0))
        member, _, instance = self._claimed(seat)
        leaving = [("" if instance and self.random.random() < 0.2 else member, instance)]
        if version >= 3 and self.random.random() < 0.2:
            other = self.random.choice(self.seats)
            leaving.append((other.member, other.instance))
        known = set(self._names[0].values())
        if any(one in known - self._joined for one, _ in leaving):
            return None  # In Kafka the whole group joins again when an id is given back that nobody used.
        shape = request_class(ApiKey.LEAVE_GROUP, version)

        def make(door: int) -> Any:
            if version < 3:
                return build(shape, group_id=self.group, member_id=self._id(door, member))
            identity = part(shape, "MemberIdentity")
            them = [
                build(identity, member_id=self._id(door, one), group_instance_id=name, reason=None)
                for one, name in leaving
            ]
            return build(shape, group_id=self.group, members=tuple(them))

        return self._ask(f"{leaving if version >= 3 else member}", ApiKey.LEAVE_GROUP, version, make)

    def _commit(self, seat: Seat) -> Step:
        version = self.random.choice((9, 8, 7, 6, 5, 3, 2))
        member, generations, instance = self._claimed(seat)
        instance = instance if version >= 7 else None
        if self.random.random() < 0.12:
            member, generations = "", NO_GENERATION
        topic = self.topic if self.random.random() < 0.93 else "no-such-topic"
        number, offset = self.random.choice((0, 1, 2, 99)), self.random.choice((0, 5, 1_000))
        said, epoch = self.random.choice(("", "a note", None)), self.random.choice((-1, 0, 3))
        shape = request_class(ApiKey.OFFSET_COMMIT, version)
        named, placed = part(shape, "OffsetCommitRequestTopic"), part(shape, "OffsetCommitRequestPartition")

        def make(door: int) -> Any:
            one = build(
                placed, partition_index=number, committed_offset=offset, committed_metadata=said,
                committed_leader_epoch=epoch,
            )  # fmt: skip
            more = {"retention_time": timedelta(milliseconds=-1)} if version < 5 else {}
            return build(
                shape, group_id=self.group, member_id=self._id(door, member), group_instance_id=instance,
                topics=(build(named, name=topic, partitions=(one,)),),
                generation_id_or_member_epoch=generations[door], **more,
            )  # fmt: skip

        text = (
            f"{member!r} as {instance} in {generations} {topic}-{number} at {offset}, {said!r}, epoch {epoch}"
        )
        return self._ask(text, ApiKey.OFFSET_COMMIT, version, make)

    def _fetch(self, _seat: Seat) -> Step:
        version = self.random.choice((7, 5, 3, 2, 1))
        shape = request_class(ApiKey.OFFSET_FETCH, version)
        named = part(shape, "OffsetFetchRequestTopic")
        some = build(named, name=self.topic, partition_indexes=(0, 1, 2, 99))
        topics = None if version >= 2 and self.random.random() < 0.5 else (some,)
        body = build(shape, group_id=self.group, topics=topics, require_stable=False)
        return self._ask("all" if topics is None else "some", ApiKey.OFFSET_FETCH, version, lambda _: body)

    def _describe(self, _seat: Seat) -> Step:
        version = self.random.choice((6, 5, 4, 1, 0))
        shape = request_class(ApiKey.DESCRIBE_GROUPS, version)
        body = build(shape, groups=(self.group,), include_authorized_operations=False)
        return self._ask("", ApiKey.DESCRIBE_GROUPS, version, lambda _: body)

    def _delete(self, _seat: Seat) -> Step:
        version = self.random.choice((2, 1, 0))
        body = build(request_class(ApiKey.DELETE_GROUPS, version), groups_names=(self.group,))
        return self._ask("", ApiKey.DELETE_GROUPS, version, lambda _: body)

    def _delete_offsets(self, _seat: Seat) -> Step:
        shape = request_class(ApiKey.OFFSET_DELETE, 0)
        numbers: Sequence[int] = self.random.sample((0, 1, 2, 99), 2)
        placed = part(shape, "OffsetDeleteRequestPartition")
        partitions = tuple(build(placed, partition_index=number) for number in numbers)
        named = build(part(shape, "OffsetDeleteRequestTopic"), name=self.topic, partitions=partitions)
        body = build(shape, group_id=self.group, topics=(named,))
        return self._ask(f"{numbers}", ApiKey.OFFSET_DELETE, 0, lambda _: body)
