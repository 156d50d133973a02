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

from controller.loss_models import ElectionLoss as ElectionLoss
from controller.note_models import LOG_STATES as LOG_STATES
from controller.note_models import LagNote as LagNote
from controller.note_models import LogNote as LogNote
from controller.row_constraints import holds_no_null, holds_texts_by_name
from runtime.models import VERSION_LENGTH

NAME_LENGTH = 249
"""Longest name of a topic, in characters: Kafka's bound; of a user and a client id in quotas, too."""

FIRST_BROKER_ID, LAST_BROKER_ID = 1, 9_999
"""Nodes have the ids from 10,001: one id space, so that Kafka clients never confuse the two."""

NO_LEADER = -1

PHASES = ("Init", "InProgress", "Done", "Cancelled", "Failed")
"""Of a reassignment; those of `controller.core.records`. The first two are active."""

PLAN_PHASES = ("Computing", "Draft", "Approved", "Running", "Paused", "Done", "Cancelled", "Failed")
"""Those of `controller.core.plan_rows`. The last three are over."""

STEP_STATES = ("Waiting", "Asked", "Done", "Skipped", "Cancelled", "Failed")


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
    leaving = models.BooleanField(
        default=False, db_default=False, help_text="It is about to stop: serves on, is not elected any more."
    )
    cordoned = models.BooleanField(
        default=False, db_default=False, help_text="An operator wants no new replicas on it."
    )
    static_configs = models.JSONField(
        default=dict,
        db_default={},
        blank=True,
        help_text="What its environment says of configs, by the names of topics' where they have one.",
    )
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
            models.CheckConstraint(
                name="broker_endpoints_are_texts", condition=holds_texts_by_name("endpoints")
            ),
            models.CheckConstraint(
                name="broker_static_configs_are_texts", condition=holds_texts_by_name("static_configs")
            ),
        )

    def __str__(self) -> str:
        return f"broker {self.broker_id}"


class BrokerCondition(models.Model):
    """How a broker is, as it said last; for people and for plans that they review. It may have none."""

    broker = models.OneToOneField(
        Broker,
        primary_key=True,
        on_delete=models.CASCADE,
        related_name="condition",
        db_constraint=False,  # what a broker said may be written in the moment in which it is unregistered
    )
    disk_total_bytes = models.BigIntegerField(null=True, help_text="Of the file system of its logs.")
    disk_usable_bytes = models.BigIntegerField(null=True)
    disk_reserve_bytes = models.BigIntegerField(null=True, help_text="With less it takes no records.")
    short_since = models.DateTimeField(null=True, help_text="Since when less is usable than the reserve.")
    throttled = models.JSONField(
        default=list, help_text="Clients that wait: muster.messages.link.condition.ThrottledClient."
    )
    throttled_more = models.IntegerField(default=0, help_text="How many more wait than are named.")
    version = models.CharField(max_length=VERSION_LENGTH, default="", db_default="", blank=True)
    at = models.DateTimeField(db_default=Now())

    class Meta:
        db_table = "broker_condition"

    def __str__(self) -> str:
        return f"condition of broker {self.broker_id}"


class Topic(models.Model):
    """One topic; a topic that is created anew under an old name has another id."""

    topic_id = models.UUIDField(primary_key=True, default=uuid.uuid4)
    name = models.CharField(unique=True, max_length=NAME_LENGTH, db_collation="C")
    partition_count = models.IntegerField()
    replication_factor = models.SmallIntegerField()
    configs = models.JSONField(default=dict, blank=True, help_text="What CreateTopics set, by Kafka's names.")
    removed_epoch = models.IntegerField(
        default=0, db_default=0, help_text="No removed partition had a higher leader epoch."
    )
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
            models.CheckConstraint(name="topic_configs_are_texts", condition=holds_texts_by_name("configs")),
        )

    def __str__(self) -> str:
        return self.name


class BrokerConfig(models.Model):
    """What was set for one broker, or for all of them (id 0), while they run; settings say the rest."""

    broker_id = models.IntegerField(primary_key=True, help_text="0: the whole cluster.")
    configs = models.JSONField(default=dict, blank=True, help_text="By the names that brokers use.")
    metadata_version = models.BigIntegerField(help_text="Of the turn that last changed this row.")
    changed_at = models.DateTimeField(db_default=Now())

    class Meta:
        db_table = "broker_configs"
        ordering = ("broker_id",)
        constraints = (
            models.CheckConstraint(
                name="broker_configs_are_of_a_broker_or_of_all",
                condition=Q(broker_id__gte=0, broker_id__lte=LAST_BROKER_ID),
            ),
            models.CheckConstraint(name="broker_configs_are_texts", condition=holds_texts_by_name("configs")),
        )

    def __str__(self) -> str:
        return f"configs of broker {self.broker_id}" if self.broker_id else "configs of the cluster"


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
    throttle = models.BigIntegerField(
        default=0, db_default=0, help_text="Bytes a second and broker, of what is being added; 0: any."
    )
    base_epoch = models.IntegerField(
        default=0, db_default=0, help_text="Leader epochs up to it were given by removed partitions."
    )
    unproven = models.PositiveSmallIntegerField(
        default=0,
        db_default=0,
        help_text="Of a database that was set back; 0: nobody waits for replicas to show their logs.",
    )
    version = models.BigIntegerField(help_text="Kafka's partition epoch.")
    added_again_at = models.DateTimeField(
        null=True, blank=True, help_text="When it took a number that a removed one may have had."
    )
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
                condition=Q(isr__len__gte=1) | Q(leader=NO_LEADER, leader_epoch__lte=F("base_epoch")),
            ),
            models.CheckConstraint(
                name="partition_is_assigned", condition=Q(partition__gte=0, assigned__len__gte=1)
            ),
            models.CheckConstraint(name="partition_knows_its_replicas", condition=holds_no_null("assigned")),
            models.CheckConstraint(
                name="partition_changing_is_assigned",
                condition=Q(adding__contained_by=F("assigned"), removing__contained_by=F("assigned")),
            ),
        )
        indexes = (
            models.Index(
                name="partition_added_again", fields=("topic", "partition"), condition=Q(base_epoch__gt=0)
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
    size_bytes = models.BigIntegerField(null=True, help_text="Of the leader's log; NULL: it did not say.")
    at = models.DateTimeField(db_default=Now())
    recent_high_watermark = models.BigIntegerField(null=True, help_text="What it was at `recent_at`.")
    recent_at = models.DateTimeField(null=True, help_text="At most a minute before `at`.")
    earlier_high_watermark = models.BigIntegerField(null=True, help_text="What it was at `earlier_at`.")
    earlier_at = models.DateTimeField(null=True, help_text="A minute or more before `at`, two at most.")
    recent_size_bytes = models.BigIntegerField(null=True, help_text="What `size_bytes` was at `recent_at`.")
    earlier_size_bytes = models.BigIntegerField(null=True, help_text="What it was at `earlier_at`.")

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
    throttle = models.BigIntegerField(default=0, db_default=0, help_text="Bytes a second; 0: any.")
    plan_id = models.UUIDField(null=True, blank=True, help_text="Of the plan that asked for it; NULL: none.")
    plan_step = models.IntegerField(default=0, db_default=0)
    asked_version = models.BigIntegerField(help_text="metadata_version of the turn that was asked for it.")
    asked_place = models.IntegerField(help_text="Its place among those of that turn.")
    version = models.BigIntegerField(help_text="metadata_version of the turn that last changed it.")
    asked_at = models.DateTimeField(db_default=Now())
    started_at = models.DateTimeField(null=True, blank=True)
    ended_at = models.DateTimeField(null=True, blank=True)
    copied_bytes = models.BigIntegerField(
        null=True, blank=True, help_text="How much was copied when it ended; NULL: nobody said."
    )

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


class Arrival(models.Model):
    """How much of a partition that moves has come to one broker, as that broker last said; for people."""

    move = models.ForeignKey(Reassignment, on_delete=models.CASCADE, related_name="arrivals")
    broker_id = models.IntegerField()
    held_bytes = models.BigIntegerField()
    at = models.DateTimeField(db_default=Now())
    grew_at = models.DateTimeField(db_default=Now(), help_text="When it was last more than before.")
    recent_bytes = models.BigIntegerField(help_text="What `held_bytes` was at `recent_at`.")
    recent_at = models.DateTimeField(db_default=Now(), help_text="At most some seconds before `at`.")
    earlier_bytes = models.BigIntegerField(null=True, help_text="What it was at `earlier_at`.")
    earlier_at = models.DateTimeField(null=True, help_text="Some seconds before `recent_at`.")

    class Meta:
        db_table = "arrival"
        constraints = (
            models.UniqueConstraint(name="arrival_is_the_only_one", fields=("move", "broker_id")),
            models.CheckConstraint(name="arrival_has_bytes", condition=Q(held_bytes__gte=0)),
        )

    def __str__(self) -> str:
        return f"{self.held_bytes} bytes at broker {self.broker_id}"


class Plan(models.Model):
    """Many moves that were computed, are reviewed and run as one (replication.md section 2)."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4)
    kind = models.CharField(max_length=20)
    options = models.JSONField(help_text="What it is to do: muster.messages.link.plans.PlanOptions.")
    phase = models.CharField(max_length=10)
    throttle = models.BigIntegerField(default=0, help_text="Bytes a second and broker; 0: any.")
    at_a_time = models.IntegerField(help_text="How many of its moves may be active.")
    step_count = models.IntegerField(default=0)
    cost = models.JSONField(default=dict, help_text="As computed: controller.core.proposals.Cost.")
    proposed_by = models.CharField(max_length=NAME_LENGTH, default="", blank=True)
    reason = models.TextField(default="", blank=True, help_text="What who proposed it said.")
    changed_by = models.CharField(
        max_length=NAME_LENGTH, default="", blank=True, help_text="Who approved, ran, paused or ended it."
    )
    why = models.TextField(default="", blank=True, help_text="Why it was changed last, or failed.")
    version = models.BigIntegerField(help_text="metadata_version of the turn that last changed this row.")
    proposed_version = models.BigIntegerField(help_text="metadata_version of the turn that began it.")
    proposed_at = models.DateTimeField(db_default=Now())
    approved_at = models.DateTimeField(null=True, blank=True)
    started_at = models.DateTimeField(null=True, blank=True)
    ended_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        db_table = "plan"
        ordering = ("-proposed_version", "id")
        constraints = (
            models.CheckConstraint(name="plan_phase_is_known", condition=Q(phase__in=PLAN_PHASES)),
            models.CheckConstraint(
                name="plan_counts_upwards", condition=Q(throttle__gte=0, at_a_time__gte=1, step_count__gte=0)
            ),
        )
        indexes = (models.Index(name="plan_by_turn", fields=("-proposed_version", "id")),)

    def __str__(self) -> str:
        return f"{self.kind} {self.id}"


class PlanStep(models.Model):
    """One partition of a plan: as it was reviewed, where it goes, and what became of that."""

    plan = models.ForeignKey(Plan, on_delete=models.CASCADE, related_name="steps", db_index=False)
    number = models.IntegerField(help_text="Its place in the plan, from 0.")
    topic_id = models.UUIDField(help_text="Of the topic; it may be deleted by now.")
    topic_name = models.CharField(max_length=NAME_LENGTH)
    partition = models.IntegerField()
    reviewed_version = models.BigIntegerField(help_text="Of the partition's row when it was computed.")
    origin = ArrayField(models.IntegerField(), help_text="Replicas then.")
    target = ArrayField(models.IntegerField(), help_text="Replicas when it is done.")
    size_bytes = models.BigIntegerField(null=True, help_text="Of the leader's log then; NULL: unknown.")
    state = models.CharField(max_length=10)
    why = models.TextField(default="", blank=True, help_text="Why it was skipped, or ended early.")

    class Meta:
        db_table = "plan_step"
        ordering = ("plan", "number")
        constraints = (
            models.UniqueConstraint(name="plan_step_is_unique", fields=("plan", "number")),
            models.CheckConstraint(name="plan_step_state_is_known", condition=Q(state__in=STEP_STATES)),
            models.CheckConstraint(
                name="plan_step_has_replicas", condition=Q(origin__len__gte=1, target__len__gte=1)
            ),
        )
        indexes = (
            models.Index(
                name="plan_step_open", fields=("plan", "number"), condition=Q(state__in=STEP_STATES[:2])
            ),
        )

    def __str__(self) -> str:
        return f"{self.topic_name}-{self.partition} to {self.target}"


class ClientQuota(models.Model):
    """What a user, a client id, or both together may send and fetch per broker; empty name: the default."""

    user_name = models.CharField(max_length=NAME_LENGTH, null=True, blank=True)
    client_id = models.CharField(max_length=NAME_LENGTH, null=True, blank=True)
    producer_byte_rate = models.BigIntegerField(null=True, blank=True, help_text="Bytes per second.")
    consumer_byte_rate = models.BigIntegerField(null=True, blank=True, help_text="Bytes per second.")
    version = models.BigIntegerField(help_text="metadata_version of the turn that last changed it.")
    changed_at = models.DateTimeField(db_default=Now())

    class Meta:
        db_table = "client_quota"
        ordering = ("user_name", "client_id")
        constraints = (
            models.UniqueConstraint(
                name="client_quota_is_unique", fields=("user_name", "client_id"), nulls_distinct=False
            ),
            models.CheckConstraint(
                name="client_quota_is_somebodys",
                condition=Q(user_name__isnull=False) | Q(client_id__isnull=False),
            ),
            models.CheckConstraint(
                name="client_quota_has_a_rate",
                condition=Q(producer_byte_rate__gte=1) | Q(consumer_byte_rate__gte=1),
            ),
        )

    def __str__(self) -> str:
        return f"user {self.user_name}, client id {self.client_id}"
