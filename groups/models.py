"""This room holds the rows of consumer groups: groups, members, ownership, assignments, offsets.

Only `coordinator.store` writes them, in the process that holds the lease of the group's shard (design
chapter 4.1); everybody else reads. Columns with times are for people and are never decided on.
"""

from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import F, Func, IntegerField, Q, Value
from django.db.models.functions import Now
from django.db.models.lookups import Exact

from groups.core import phases
from runtime.ports import SHARD_COUNT

NAME_LENGTH = 249
"""Longest name of a group, a member or a topic, in characters: Kafka's bound for topics."""


def _length_of(column: str) -> Func:
    return Func(F(column), function="cardinality", output_field=IntegerField())


class Phase(models.TextChoices):
    """The phases of `groups.core.phases`, as a column names them; the words are Kafka's."""

    EMPTY = phases.Phase.EMPTY.value
    PREPARING_REBALANCE = phases.Phase.PREPARING_REBALANCE.value
    COMPLETING_REBALANCE = phases.Phase.COMPLETING_REBALANCE.value
    STABLE = phases.Phase.STABLE.value


class Protocol(models.TextChoices):
    """Which language the members speak; a group speaks one as long as it has members."""

    NATIVE = "native", "websocket (native)"
    CLASSIC = "classic", "Kafka (classic)"


class RebalanceMode(models.TextChoices):
    """Whether members that lose nothing go on fetching while a rebalance is open (design chapter 6.2)."""

    INCREMENTAL = "incremental"
    EAGER = "eager"


class OwnershipState(models.TextChoices):
    """`assigned`: the owner was not yet heard to have started; `running`: it answered StartFetcher."""

    ASSIGNED = "assigned"
    RUNNING = "running"


class AutoOffsetReset(models.TextChoices):
    """What a member does where no offset is committed, or the committed one is out of range."""

    EARLIEST = "earliest"
    LATEST = "latest"
    NONE = "none"


class ConsumerGroup(models.Model):
    """One consumer group; `version` rises with each turn that changes any row of the group."""

    name = models.CharField(primary_key=True, max_length=NAME_LENGTH, db_collation="C")
    shard = models.SmallIntegerField(help_text="crc32(name) modulo 64; the shard's lease holder writes.")
    protocol = models.CharField(max_length=7, choices=Protocol, default=Protocol.NATIVE)
    phase = models.CharField(max_length=19, choices=Phase, default=Phase.EMPTY)
    generation = models.BigIntegerField(default=0, help_text="Rises by one when a rebalance closes.")
    version = models.BigIntegerField(default=0, help_text="Rises with each turn of this group.")
    rebalance_mode = models.CharField(max_length=11, choices=RebalanceMode, default=RebalanceMode.INCREMENTAL)
    assignor = models.CharField(max_length=32, default="sticky")
    copies = models.SmallIntegerField(
        db_default=2, help_text="To how many members the redundant assignor gives a partition."
    )
    # What follows is of classic groups: native ones have no leader among their members.
    protocol_type = models.TextField(
        db_default="", blank=True, help_text="What a classic group's members say they are; consumer, connect."
    )
    protocol_name = models.TextField(
        null=True, blank=True, help_text="The strategy that every member of a classic group supports."
    )
    leader = models.TextField(null=True, blank=True, help_text="The member that assigns in a classic group.")
    error = models.TextField(default="", blank=True, help_text="What keeps this group from settling.")
    ephemeral = models.BooleanField(default=False, help_text="Deleted as soon as it is empty.")
    created_at = models.DateTimeField(db_default=Now())
    changed_at = models.DateTimeField(db_default=Now())
    phase_entered_at = models.DateTimeField(db_default=Now(), help_text="When the phase was another last.")

    class Meta:
        db_table = "consumer_group"
        ordering = ("name",)
        indexes = (models.Index(fields=("shard",), name="consumer_group_shard"),)
        constraints = (
            models.CheckConstraint(name="consumer_group_has_a_name", condition=Q(name__gt="")),
            models.CheckConstraint(
                name="consumer_group_shard_in_range", condition=Q(shard__gte=0, shard__lt=SHARD_COUNT)
            ),
            models.CheckConstraint(name="consumer_group_protocol", condition=Q(protocol__in=Protocol.values)),
            models.CheckConstraint(name="consumer_group_phase", condition=Q(phase__in=Phase.values)),
            models.CheckConstraint(
                name="consumer_group_rebalance_mode", condition=Q(rebalance_mode__in=RebalanceMode.values)
            ),
            models.CheckConstraint(name="consumer_group_copies", condition=Q(copies__gte=2)),
            models.CheckConstraint(
                name="consumer_group_counts_upwards", condition=Q(generation__gte=0, version__gte=0)
            ),
        )

    def __str__(self) -> str:
        return self.name


class GroupMember(models.Model):
    """One registered member of a group, with what it stated in RegisterConsumer (000 chapter 7)."""

    group = models.ForeignKey(
        ConsumerGroup,
        on_delete=models.CASCADE,
        related_name="members",
        db_column="group_name",
        db_index=False,  # the unique constraint below begins with it
    )
    member_id = models.CharField(max_length=NAME_LENGTH, db_collation="C")
    token_hash = models.BinaryField(max_length=32, help_text="SHA-256 of the token that the member made.")
    subscription = models.JSONField(help_text="Topics and patterns, each with its number of threads.")
    subscription_digest = models.BinaryField(
        max_length=32,
        default=b"",
        db_default=b"",
        help_text="SHA-256 of the subscription as it was written; empty: like nobody else's.",
    )
    session_timeout_ms = models.IntegerField()
    auto_commit = models.BooleanField(default=True)
    auto_offset_reset = models.CharField(
        max_length=8, choices=AutoOffsetReset, default=AutoOffsetReset.LATEST
    )
    client_id = models.CharField(max_length=NAME_LENGTH, default="", blank=True)
    client_host = models.CharField(max_length=64, default="", blank=True)
    rack = models.CharField(
        max_length=NAME_LENGTH, db_default="", blank=True, help_text="Where it says that it runs."
    )
    stands_by = models.BooleanField(
        db_default=False, help_text="It may stand by for partitions that another member owns."
    )
    node = models.CharField(max_length=64, default="", blank=True, help_text="Node of its last connection.")
    joined_at = models.DateTimeField(db_default=Now())
    registered_at = models.DateTimeField(
        db_default=Now(), help_text="Its last RegisterConsumer, a return on a new connection included."
    )

    class Meta:
        db_table = "group_member"
        ordering = ("group", "member_id")
        constraints = (
            models.UniqueConstraint(name="group_member_id_is_unique", fields=("group", "member_id")),
            models.CheckConstraint(name="group_member_has_an_id", condition=Q(member_id__gt="")),
            models.CheckConstraint(
                name="group_member_token_is_sha256",
                condition=Exact(
                    Func(F("token_hash"), function="octet_length", output_field=IntegerField()), Value(32)
                ),
            ),
            models.CheckConstraint(
                name="group_member_session_is_positive", condition=Q(session_timeout_ms__gt=0)
            ),
            models.CheckConstraint(
                name="group_member_auto_offset_reset",
                condition=Q(auto_offset_reset__in=AutoOffsetReset.values),
            ),
        )

    def __str__(self) -> str:
        return f"{self.group_id}/{self.member_id}"


class ClassicMember(models.Model):
    """One member of a classic group: stored as soon as its JoinGroup was decided, answered or not.

    What its strategies say and what it was assigned are bytes of the members' own; only what Kafka's
    consumers are assigned is understood, for pages. The assignment counts only while the group is Stable.
    """

    group = models.ForeignKey(
        ConsumerGroup,
        on_delete=models.CASCADE,
        related_name="classic_members",
        db_column="group_name",
        db_index=False,  # the unique constraint below begins with it
    )
    # A client id is in it, which may be longer than any name of ours.
    member_id = models.TextField(db_collation="C")
    group_instance_id = models.TextField(
        null=True,
        blank=True,
        db_collation="C",
        help_text="A static member's own name; its id may change.",
    )
    client_id = models.TextField(default="", blank=True)
    client_host = models.TextField(default="", blank=True)
    session_timeout_ms = models.IntegerField()
    rebalance_timeout_ms = models.IntegerField(help_text="How long a rebalance waits for it to join again.")
    protocol_names = ArrayField(models.TextField(), help_text="Strategies that it offers, best first.")
    protocol_metadata = ArrayField(models.BinaryField(), help_text="What it says to each of its strategies.")
    assignment = models.BinaryField(default=b"", help_text="What the leader gave it.")
    observed = models.JSONField(
        db_default=Value({}, models.JSONField()),
        help_text="Partitions by topic, if its assignment can be read; see `ObservedAssignment`.",
    )
    node = models.CharField(max_length=64, default="", blank=True, help_text="Node of its last JoinGroup.")
    joined_at = models.DateTimeField(db_default=Now())

    class Meta:
        db_table = "classic_member"
        ordering = ("group", "member_id")
        constraints = (
            models.UniqueConstraint(name="classic_member_id_is_unique", fields=("group", "member_id")),
            models.UniqueConstraint(
                name="classic_member_instance_is_unique",
                fields=("group", "group_instance_id"),
                condition=Q(group_instance_id__isnull=False),
            ),
            models.CheckConstraint(name="classic_member_has_an_id", condition=Q(member_id__gt="")),
            models.CheckConstraint(
                name="classic_member_session_is_positive", condition=Q(session_timeout_ms__gt=0)
            ),
            models.CheckConstraint(
                name="classic_member_says_something_to_each_strategy",
                condition=Exact(_length_of("protocol_names"), _length_of("protocol_metadata")),
            ),
        )

    def __str__(self) -> str:
        return f"{self.group_id}/{self.member_id}"


class ObservedAssignment(models.Model):
    """What a classic member of the type `consumer` was assigned of one topic, as its bytes say; for pages.

    A view of `ClassicMember.observed`, on which nothing is decided: the leader may give a partition to two
    members or to none, or name a topic that does not exist. `unnest(partitions)` makes a row of each one.
    """

    pk = models.CompositePrimaryKey("group", "member_id", "topic_name")
    group = models.ForeignKey(
        ConsumerGroup,
        on_delete=models.DO_NOTHING,
        related_name="observed_assignments",
        db_column="group_name",
    )
    member_id = models.TextField()
    topic_name = models.TextField()
    partitions = ArrayField(models.IntegerField())

    class Meta:
        db_table = "observed_assignment"
        managed = False

    def __str__(self) -> str:
        return f"{self.group_id}/{self.member_id}: {self.topic_name} {self.partitions}"


class PartitionOwnership(models.Model):
    """Who owns a partition within a group, and who stands by; a partition without a row is owned by nobody.

    The owner's `copy` is 0. Others are of standbys (the redundant assignor): they read along, and own and
    commit nothing. Two owners cannot be stored: (group, topic id, partition, copy) is unique, and the
    migration adds a foreign key of (group, owner) to the member, so that no row can name a stranger.
    """

    group = models.ForeignKey(
        ConsumerGroup,
        on_delete=models.CASCADE,
        related_name="ownership",
        db_column="group_name",
        db_index=False,  # the unique constraint below begins with it
    )
    topic_id = models.UUIDField()
    topic_name = models.CharField(max_length=NAME_LENGTH, db_collation="C")
    partition = models.IntegerField()
    copy = models.SmallIntegerField(default=0)
    owner = models.CharField(max_length=NAME_LENGTH, db_collation="C", help_text="Member id.")
    since_generation = models.BigIntegerField(help_text="Generation whose close gave it to this owner.")
    state = models.CharField(max_length=8, choices=OwnershipState, default=OwnershipState.ASSIGNED)

    class Meta:
        db_table = "partition_ownership"
        ordering = ("group", "topic_name", "partition", "copy")
        verbose_name_plural = "partition ownership"
        constraints = (
            models.UniqueConstraint(
                name="partition_ownership_has_one_owner", fields=("group", "topic_id", "partition", "copy")
            ),
            models.UniqueConstraint(
                name="partition_ownership_copies_differ", fields=("group", "owner", "topic_id", "partition")
            ),
            models.CheckConstraint(
                name="partition_ownership_in_range",
                condition=Q(partition__gte=0, copy__gte=0, since_generation__gte=0),
            ),
            models.CheckConstraint(
                name="partition_ownership_state", condition=Q(state__in=OwnershipState.values)
            ),
        )

    def __str__(self) -> str:
        return f"{self.group_id}/{self.topic_name}-{self.partition}"


class CommittedOffset(models.Model):
    """The position that a group committed for a partition: the offset of the next record to read."""

    group = models.ForeignKey(
        ConsumerGroup,
        on_delete=models.CASCADE,
        related_name="offsets",
        db_column="group_name",
        db_index=False,  # the unique constraint below begins with it
    )
    topic_id = models.UUIDField()
    topic_name = models.CharField(max_length=NAME_LENGTH, db_collation="C")
    partition = models.IntegerField()
    offset = models.BigIntegerField(db_column="committed_offset")
    leader_epoch = models.IntegerField(default=-1, help_text="Of the last record read; −1: unknown.")
    metadata = models.CharField(max_length=4096, default="", blank=True)
    version = models.BigIntegerField(default=1, help_text="Rises with each commit.")
    committed_at = models.DateTimeField(db_default=Now())
    moved_at = models.DateTimeField(
        db_default=Now(), help_text="When the offset was another last: the same again is no progress."
    )
    expires_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        db_table = "committed_offset"
        ordering = ("group", "topic_name", "partition")
        constraints = (
            models.UniqueConstraint(
                name="committed_offset_is_unique", fields=("group", "topic_id", "partition")
            ),
            models.CheckConstraint(
                name="committed_offset_in_range",
                condition=Q(partition__gte=0, offset__gte=0, leader_epoch__gte=-1, version__gte=1),
            ),
        )

    def __str__(self) -> str:
        return f"{self.group_id}/{self.topic_name}-{self.partition} = {self.offset}"


class GroupWaiting(models.Model):
    """For whom an open rebalance waits, as the group's owner noted it; nothing is decided on it.

    It speaks of the group's present phase if it is of that phase and was noted since the group came into it;
    else it is of a rebalance that is over.
    """

    group = models.OneToOneField(
        ConsumerGroup,
        on_delete=models.CASCADE,
        primary_key=True,
        related_name="waiting",
        db_column="group_name",
    )
    phase = models.CharField(max_length=19)
    waits_for = models.JSONField(help_text="The first of the members that are missing.")
    missing = models.IntegerField()
    arrived = models.IntegerField()
    ends_at = models.DateTimeField(null=True)
    told_at = models.DateTimeField()

    class Meta:
        db_table = "group_waiting"

    def __str__(self) -> str:
        return f"{self.group_id} waits for {self.missing}"


class GroupQuarantine(models.Model):
    """A name that an operator keeps out; the group's owner counts the time, in full again from each load."""

    group = models.ForeignKey(
        ConsumerGroup,
        on_delete=models.CASCADE,
        related_name="quarantines",
        db_column="group_name",
        db_index=False,  # the unique constraint below begins with it
    )
    member_id = models.TextField(
        db_collation="C", help_text="A member's id; of a classic one its group.instance.id or client.id."
    )
    length_ms = models.BigIntegerField()
    why = models.TextField()
    imposed_at = models.DateTimeField(db_default=Now())

    class Meta:
        db_table = "group_quarantine"
        ordering = ("group", "member_id")
        constraints = (
            models.UniqueConstraint(name="group_quarantine_is_one", fields=("group", "member_id")),
            models.CheckConstraint(name="group_quarantine_in_range", condition=Q(length_ms__gte=0)),
        )

    def __str__(self) -> str:
        return f"{self.group_id}/{self.member_id}"
