"""This room holds the rows of the replicated logs: brokers, topics, partitions, and how far they got.

Only `controller.store` writes them, in the process that holds the lease `controller` (design chapter 4.1);
`manage.py enroll_broker` alone adds a broker's row and its secret. Everybody else reads. Columns with times
are for people and are never decided on.
"""

import uuid

from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import F, Func, IntegerField, Q, Value
from django.db.models.functions import Now, Replace
from django.db.models.lookups import Exact

NAME_LENGTH = 249
"""Longest name of a topic, in characters: Kafka's bound."""

FIRST_BROKER_ID, LAST_BROKER_ID = 1, 9_999
"""Nodes have the ids from 10,001: one id space, so that Kafka clients never confuse the two."""

NO_LEADER = -1

PHASES = ("Init", "InProgress", "Done", "Cancelled", "Failed")
"""Of a reassignment; those of `controller.core.records`. The first two are active."""


class Broker(models.Model):
    """One enrolled broker: what it stated in its last hello, and whether it counts as live.

    Its session lives in the controller's memory; `fenced` is what the controller's turns made of it.
    """

    broker_id = models.IntegerField(primary_key=True)
    secret_hash = models.BinaryField(max_length=32, help_text="SHA-256 of the secret of enroll_broker.")
    endpoints = models.JSONField(
        default=dict, help_text='Address by listener: {"client": "host:port", "replication": "host:port"}.'
    )
    rack = models.CharField(max_length=NAME_LENGTH, default="", blank=True)
    broker_epoch = models.BigIntegerField(
        default=0, help_text="Rises with each new incarnation; 0: enrolled, never registered."
    )
    incarnation = models.UUIDField(null=True, blank=True, help_text="Made anew by each broker process.")
    fenced = models.BooleanField(default=True, help_text="Fenced: has no session, leads nothing.")
    metadata_version = models.BigIntegerField(default=0, help_text="Of the turn that last changed this row.")
    set_back = models.CharField(
        max_length=200,
        default="",
        db_default="",
        blank=True,
        help_text="How it has proved that this database was set back; empty once it registers.",
    )
    enrolled_at = models.DateTimeField(db_default=Now())
    registered_at = models.DateTimeField(null=True, blank=True, help_text="When its incarnation was new.")
    changed_at = models.DateTimeField(db_default=Now())

    class Meta:
        db_table = "broker"
        ordering = ("broker_id",)
        constraints = (
            models.CheckConstraint(
                name="broker_id_in_range",
                condition=Q(broker_id__gte=FIRST_BROKER_ID, broker_id__lte=LAST_BROKER_ID),
            ),
            models.CheckConstraint(
                name="broker_secret_is_sha256",
                condition=Exact(
                    Func(F("secret_hash"), function="octet_length", output_field=IntegerField()), Value(32)
                ),
            ),
            models.CheckConstraint(
                name="broker_live_is_registered",
                condition=Q(fenced=True) | Q(broker_epoch__gte=1, incarnation__isnull=False),
            ),
            models.CheckConstraint(name="broker_epoch_counts_upwards", condition=Q(broker_epoch__gte=0)),
        )

    def __str__(self) -> str:
        return f"broker {self.broker_id}"


class Topic(models.Model):
    """One topic; a topic that is created anew under an old name has another id."""

    topic_id = models.UUIDField(primary_key=True, default=uuid.uuid4)
    name = models.CharField(unique=True, max_length=NAME_LENGTH, db_collation="C")
    partition_count = models.IntegerField()
    replication_factor = models.SmallIntegerField()
    configs = models.JSONField(default=dict, blank=True, help_text="What CreateTopics set, by Kafka's names.")
    metadata_version = models.BigIntegerField(default=0, help_text="Of the turn that last changed this row.")
    created_at = models.DateTimeField(db_default=Now())

    class Meta:
        db_table = "topic"
        ordering = ("name",)
        constraints = (
            # `.` and `_` are one character in the names of Kafka's metrics (B5 line 199).
            models.UniqueConstraint(
                Replace("name", Value("."), Value("_")), name="topic_name_is_unique_when_folded"
            ),
            models.CheckConstraint(
                name="topic_name_is_a_name",
                condition=Q(name__regex=r"^[A-Za-z0-9._-]+$") & ~Q(name__in=(".", "..")),
            ),
            models.CheckConstraint(
                name="topic_has_partitions_and_replicas",
                condition=Q(partition_count__gte=1, replication_factor__gte=1),
            ),
        )

    def __str__(self) -> str:
        return self.name


class Partition(models.Model):
    """One partition: its replicas, who leads, who is in sync (002 A; replication.md section 2).

    `version` is the metadata_version of the turn that last changed the replicas, the leader, the leader
    epoch or the ISR; it is also the condition of every write.
    """

    topic = models.ForeignKey(
        Topic,
        on_delete=models.CASCADE,
        related_name="partitions",
        db_index=False,  # the unique constraint below begins with it
    )
    partition = models.IntegerField()
    assigned = ArrayField(models.IntegerField(), help_text="Replicas; the first is the preferred leader.")
    adding = ArrayField(models.IntegerField(), default=list, blank=True)
    removing = ArrayField(models.IntegerField(), default=list, blank=True)
    leader = models.IntegerField(default=NO_LEADER, help_text="Broker id; −1: none.")
    leader_epoch = models.IntegerField(default=0, help_text="Rises at each election.")
    isr = ArrayField(models.IntegerField(), default=list, blank=True, help_text="Empty: never had a leader.")
    version = models.BigIntegerField(help_text="Kafka's partition epoch.")
    changed_at = models.DateTimeField(db_default=Now())

    class Meta:
        db_table = "partition"
        ordering = ("topic", "partition")
        constraints = (
            models.UniqueConstraint(name="partition_is_unique", fields=("topic", "partition")),
            models.CheckConstraint(
                name="partition_leader_is_in_sync",
                condition=Q(leader=NO_LEADER) | Q(isr__contains=[F("leader")]),
            ),
            models.CheckConstraint(
                name="partition_isr_is_assigned", condition=Q(isr__contained_by=F("assigned"))
            ),
            models.CheckConstraint(
                name="partition_isr_stays_after_the_first_leader",
                condition=Q(isr__len__gte=1) | Q(leader=NO_LEADER, leader_epoch__lte=0),
            ),
            models.CheckConstraint(
                name="partition_is_assigned", condition=Q(partition__gte=0, assigned__len__gte=1)
            ),
            models.CheckConstraint(
                name="partition_changing_is_assigned",
                condition=Q(adding__contained_by=F("assigned"), removing__contained_by=F("assigned")),
            ),
        )

    def __str__(self) -> str:
        return f"{self.topic_id}-{self.partition}"


class PartitionProgress(models.Model):
    """How far a partition got, as its leader last said; for lag on the pages, never decided on."""

    partition = models.OneToOneField(
        Partition, primary_key=True, on_delete=models.CASCADE, related_name="progress"
    )
    high_watermark = models.BigIntegerField()
    at = models.DateTimeField(db_default=Now())
    recent_high_watermark = models.BigIntegerField(null=True, help_text="What it was at `recent_at`.")
    recent_at = models.DateTimeField(null=True, help_text="At most a minute before `at`.")
    earlier_high_watermark = models.BigIntegerField(null=True, help_text="What it was at `earlier_at`.")
    earlier_at = models.DateTimeField(null=True, help_text="A minute or more before `at`, two at most.")

    class Meta:
        db_table = "partition_progress"
        verbose_name_plural = "partition progress"
        constraints = (
            models.CheckConstraint(
                name="partition_progress_is_an_offset", condition=Q(high_watermark__gte=0)
            ),
        )

    def __str__(self) -> str:
        return f"{self.partition_id} up to {self.high_watermark}"


class Reassignment(models.Model):
    """One partition on its way to other brokers, or how that ended (002 E; replication.md section 2)."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4)
    topic_id = models.UUIDField(help_text="Of the topic; it may be deleted by now.")
    topic_name = models.CharField(max_length=NAME_LENGTH)
    partition = models.IntegerField()
    origin = ArrayField(models.IntegerField(), help_text="Replicas when it began.")
    target = ArrayField(models.IntegerField(), help_text="Replicas when it is done.")
    phase = models.CharField(max_length=10)
    principal = models.CharField(max_length=NAME_LENGTH, default="", blank=True)
    reason = models.TextField(default="", blank=True, help_text="Why it ended before its target.")
    asked_version = models.BigIntegerField(help_text="metadata_version of the turn that was asked for it.")
    asked_place = models.IntegerField(help_text="Its place among those of that turn.")
    version = models.BigIntegerField(help_text="metadata_version of the turn that last changed it.")
    asked_at = models.DateTimeField(db_default=Now())
    started_at = models.DateTimeField(null=True, blank=True)
    ended_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        db_table = "reassignment"
        ordering = ("-asked_version", "asked_place")
        constraints = (
            models.UniqueConstraint(
                name="reassignment_is_the_only_active_one",
                fields=("topic_id", "partition"),
                condition=Q(phase__in=PHASES[:2]),
            ),
            models.CheckConstraint(
                name="reassignment_phase_is_known",
                condition=Q(phase__in=PHASES),
            ),
            models.CheckConstraint(
                name="reassignment_has_replicas",
                condition=Q(origin__len__gte=1, target__len__gte=1),
            ),
        )
        indexes = (models.Index(name="reassignment_by_turn", fields=("-asked_version", "asked_place")),)

    def __str__(self) -> str:
        return f"{self.topic_name}-{self.partition} to {self.target}"
