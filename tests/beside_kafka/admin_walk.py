"""This room walks what operators ask at random, from a seed, at Muster and at Apache Kafka in step.

To what it asks about topics, configs and quotas come groups in every state, which are looked at and lose what
they have.
"""

from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from muster.kafkawire.api_table import ApiKey
from tests.beside_kafka.configs_walk import ConfigsWalk
from tests.beside_kafka.doors import Door
from tests.beside_kafka.lockstep import Values
from tests.beside_kafka.topics_walk import Asks

MINUTES = timedelta(minutes=20)


@dataclass
class Member:
    """The one member of a group: what each system called it, and its generation."""

    ids: tuple[str, str]
    generations: tuple[int, int] = (-1, -1)


@dataclass
class AdminWalk(ConfigsWalk):
    """Groups that one node coordinates; `coordinators` are its door and Kafka's."""

    coordinators: tuple[Door, Door] = field(kw_only=True)
    groups: tuple[str, ...] = field(kw_only=True)
    members: dict[str, Member] = field(default_factory=dict)

    def asks(self) -> Asks:
        mine = (
            (self._commit, 6), (self._join, 4), (self._synchronize, 4), (self._leave, 2),
            (self._list_groups, 4),
            (self._describe_groups, 4), (self._delete_groups, 3), (self._delete_offsets, 4),
            (self._fetch_offsets, 6),
            (self._find, 2),
        )  # fmt: skip
        return (*super().asks(), *mine)

    def _ask_groups(
        self, key: ApiKey, version: int, values: Any, told: Any, **more: Any
    ) -> tuple[list[str], Any, Any]:
        return self.ask(key, version, values, told, doors=self.coordinators, **more)

    def group(self) -> str:
        return str(self.pick(*self.groups) if self.chance(0.95) else "")

    def _of_members(self, door: int, answer: Any) -> Any:
        """Members by one name for both; generations are each system's own."""
        shown = self.told(door, answer)

        def named(value: Any) -> Any:
            if isinstance(value, dict):
                return {
                    name: named(one)
                    for name, one in value.items()
                    if name not in ("client_host", "generation_id")
                }
            if isinstance(value, list):
                return [named(one) for one in value]
            return (
                "a member"
                if isinstance(value, str) and value.count("-") >= 5 and not value.startswith(self.prefix)
                else value
            )

        return named(shown)

    # -- states of groups

    def _commit(self) -> list[str]:
        version, group = self.version(ApiKey.OFFSET_COMMIT), self.group()
        member = self.members.get(group) if self.chance(0.7) else None
        offset, note = self.pick(0, 5, 7), self.pick("", "a note", None)
        name = self.existing()
        numbers = [self._number(name) for _ in range(self.pick(1, 2))]
        numbers = list(dict.fromkeys(numbers))

        def values(door: int) -> Values:
            part = {"committed_offset": offset, "committed_metadata": note, "committed_leader_epoch": -1}
            topics = [
                {"name": name, "partitions": [{**part, "partition_index": number} for number in numbers]}
            ]
            more = {"retention_time": timedelta(milliseconds=-1)} if version < 5 else {}
            return {
                "group_id": group, "member_id": member.ids[door] if member else "", "group_instance_id": None,
                "generation_id_or_member_epoch": member.generations[door] if member else -1,
                "topics": topics, **more,
            }  # fmt: skip

        return self._ask_groups(
            ApiKey.OFFSET_COMMIT,
            version,
            values,
            self._of_members,
            about={"group": group, "several": name not in self.partitions},
        )[0]

    def _join(self) -> list[str]:
        """Its member joins, or joins again: then the group waits for its SyncGroup."""
        group, member = self.pick(*self.groups), None
        member = self.members.get(group)
        reads = self.pick(*self.names)
        subscription = (
            b"\x00\x00\x00\x00\x00\x01" + len(reads).to_bytes(2) + reads.encode() + b"\xff\xff\xff\xff"
        )
        found: list[str] = []
        for _ in range(2):

            def values(door: int, member: Member | None = member) -> Values:
                return {
                    "group_id": group, "session_timeout": MINUTES, "rebalance_timeout": MINUTES,
                    "protocol_type": "consumer",
                    "member_id": member.ids[door] if member else "", "group_instance_id": None,
                    "reason": None,
                    "protocols": [{"name": "range", "metadata": subscription}],
                }  # fmt: skip

            found, ours, theirs = self._ask_groups(ApiKey.JOIN_GROUP, 9, values, self._of_members)
            if found:
                return found
            member = Member(
                (ours["member_id"], theirs["member_id"]), (ours["generation_id"], theirs["generation_id"])
            )
            if not ours["error_code"]:
                self.members[group] = member
                break
        return found

    def _synchronize(self) -> list[str]:
        if not self.members:
            return []
        group = self.pick(*self.members)
        member = self.members[group]

        def values(door: int) -> Values:
            return {
                "group_id": group, "generation_id": member.generations[door], "member_id": member.ids[door],
                "group_instance_id": None, "protocol_type": "consumer", "protocol_name": "range",
                "assignments": [{"member_id": member.ids[door], "assignment": b"\x00\x01"}],
            }  # fmt: skip

        return self._ask_groups(ApiKey.SYNC_GROUP, 5, values, self._of_members)[0]

    def _leave(self) -> list[str]:
        if not self.members:
            return []
        group = self.pick(*self.members)
        member = self.members.pop(group)

        def values(door: int) -> Values:
            return {
                "group_id": group,
                "members": [{"member_id": member.ids[door], "group_instance_id": None, "reason": None}],
            }

        return self._ask_groups(ApiKey.LEAVE_GROUP, 5, values, self._of_members)[0]

    # -- what operators ask of them

    def _list_groups(self) -> list[str]:
        version = self.version(ApiKey.LIST_GROUPS)
        states = self.pick(
            [], [], ["Stable"], ["Empty", "Stable"], ["empty"], ["Nowhere"], ["CompletingRebalance"]
        )
        types = self.pick([], [], ["classic"], ["consumer"], ["Classic"], ["nothing"])

        def told(door: int, answer: Any) -> Any:
            mine = [one for one in answer["groups"] if one["group_id"].startswith(self.prefix)]
            return self.told(door, {**answer, "groups": mine})

        values = {"states_filter": states, "types_filter": types}
        return self._ask_groups(
            ApiKey.LIST_GROUPS, version, values, told, about={"states": states, "types": types}
        )[0]

    def _describe_groups(self) -> list[str]:
        version = self.version(ApiKey.DESCRIBE_GROUPS)
        groups = list(dict.fromkeys(self.group() for _ in range(self.pick(1, 2, 0))))
        values = {"groups": groups, "include_authorized_operations": self.chance(0.3)}
        return self._ask_groups(
            ApiKey.DESCRIBE_GROUPS, version, values, self._of_members, about={"groups": groups}
        )[0]

    def _delete_groups(self) -> list[str]:
        version = self.version(ApiKey.DELETE_GROUPS)
        groups = [self.group() for _ in range(self.pick(1, 1, 2))]
        about = {"groups": groups}
        return self._ask_groups(
            ApiKey.DELETE_GROUPS, version, {"groups_names": groups}, self.told, about=about
        )[0]

    def _delete_offsets(self) -> list[str]:
        group, name = self.group(), self.existing()
        numbers = list(dict.fromkeys(self._number(name) for _ in range(self.pick(1, 2))))
        topic = {"name": name, "partitions": [{"partition_index": number} for number in numbers]}
        values = {"group_id": group, "topics": [topic]}
        about = {"group": group, "numbers": numbers}
        return self._ask_groups(ApiKey.OFFSET_DELETE, 0, values, self.told, about=about)[0]

    def _fetch_offsets(self) -> list[str]:
        version = self.version(ApiKey.OFFSET_FETCH)
        groups = list(dict.fromkeys(self.group() for _ in range(self.pick(1, 2) if version >= 8 else 1)))
        topics = [{"name": self.existing(), "partition_indexes": [0, 1, 77]}] if self.chance(0.6) else None
        if version < 2 and topics is None:
            topics = []
        one = {"member_id": None, "member_epoch": -1, "topics": topics}
        values = {
            "group_id": groups[0], "topics": topics, "require_stable": self.chance(0.3),
            "groups": [{**one, "group_id": group} for group in groups],
        }  # fmt: skip
        about = {"groups": groups, "topics": topics}
        return self._ask_groups(
            ApiKey.OFFSET_FETCH, version, values, self.told, about=about, until_alike=True
        )[0]

    def _find(self) -> list[str]:
        version = self.version(ApiKey.FIND_COORDINATOR)
        kind = self.pick(0, 0, 0, 1, 2, 3)
        keys = [self.group() for _ in range(self.pick(1, 2, 0) if version >= 4 else 1)]
        values = {"key": keys[0] if keys else "", "key_type": kind, "coordinator_keys": keys}

        def told(_door: int, answer: Any) -> Any:
            if "coordinators" in answer:
                return sorted((one["key"], one["error_code"]) for one in answer["coordinators"])
            return answer["error_code"]

        return self._ask_groups(
            ApiKey.FIND_COORDINATOR, version, values, told, about={"keys": keys, "kind": kind}
        )[0]
