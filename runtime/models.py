"""This room holds the rows of the heart: the cluster, node runs, leases, the journal, work due.

Written by raw SQL in `runtime.leases`, `runtime.turn`, `runtime.work`, `runtime.journal`, `runtime.nodes`
and `runtime.cluster` only; everybody else reads. Columns with times are for people and are never decided on.
"""

import uuid

from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import F, Q
from django.db.models.fields.json import KeyTextTransform
from django.db.models.functions import Cast, Now

NAME_LENGTH = 64
"""Longest name of a node, lane or kind, in characters."""

VERSION_LENGTH = 40
"""Longest version of a program, in characters; `kafkaserver.version` makes shorter ones."""

LOCATION_LENGTH = 24
"""Longest location of the cluster's row, in characters: two numbers of 32 bits."""

KEY_LENGTH = 255
"""Longest key of a turn or work item, in characters; group ids are at most this long."""


class Cluster(models.Model):
    """The one row of a cluster: what its epochs and ids go on from (design chapter 4.5)."""

    id = models.SmallIntegerField(primary_key=True, default=1)
    cluster_id = models.UUIDField(default=uuid.uuid4)
    system_identifier = models.BigIntegerField(help_text="Of the PostgreSQL these rows were made in.")
    timeline = models.IntegerField(help_text="Rises when a standby is promoted.")
    epoch_floor = models.BigIntegerField(default=0, help_text="New groups begin above it.")
    metadata_version = models.BigIntegerField(default=0, help_text="Rises with each controller turn.")
    next_producer_id = models.BigIntegerField(default=0, help_text="First id of the next block.")
    proven_version = models.BigIntegerField(
        default=0, db_default=0, help_text="metadata_version before the last promotion; 0: none is believed."
    )
    location = models.CharField(
        max_length=LOCATION_LENGTH,
        default="",
        db_default="",
        blank=True,
        help_text="By oid, the database and the table that these rows were made in; empty: not known.",
    )
    feature_level = models.IntegerField(default=1)
    shard_count = models.IntegerField(default=64)
    created_at = models.DateTimeField(db_default=Now())

    class Meta:
        db_table = "cluster"
        verbose_name_plural = "cluster"
        constraints = (models.CheckConstraint(name="cluster_is_one_row", condition=Q(id=1)),)

    def __str__(self) -> str:
        return str(self.cluster_id)


class NodeIdentity(models.Model):
    """The number by which Kafka clients know a node; rows are never deleted (design chapter 8a)."""

    node_id = models.AutoField(primary_key=True, help_text="From 10,001; brokers are below.")
    name = models.CharField(max_length=NAME_LENGTH, unique=True, help_text="As at each of its starts.")
    given_at = models.DateTimeField(db_default=Now())

    class Meta:
        db_table = "node_identity"
        verbose_name_plural = "node identities"
        ordering = ("node_id",)

    def __str__(self) -> str:
        return f"{self.name} ({self.node_id})"


class NodeSession(models.Model):
    """One run of a node process; `ended` never returns to false, and a missing row counts as ended."""

    run = models.CharField(max_length=32, primary_key=True, help_text="Random, made anew by each run.")
    node = models.CharField(max_length=NAME_LENGTH)
    pid = models.IntegerField(help_text="Backend of its session connection.")
    backend_start = models.DateTimeField(help_text="Tells two backends of one pid apart.")
    renewals = models.BigIntegerField(default=0, help_text="Rises every 0.4 s while the node lives.")
    renewed_at = models.DateTimeField(null=True, help_text="When `renewals` rose last.")
    ended = models.BooleanField(default=False)
    draining = models.BooleanField(default=False, help_text="It gives its leases away and takes none.")
    addresses = models.JSONField(
        default=dict, help_text='By kind: {"websocket": "ws://host:port", "kafka": "host:port"}.'
    )
    started_at = models.DateTimeField(db_default=Now())
    version = models.CharField(
        max_length=VERSION_LENGTH,
        default="",
        db_default="",
        blank=True,
        help_text="What it runs; empty: a version that does not say.",
    )
    came = ArrayField(
        models.IntegerField(),
        default=list,
        db_default=[],
        blank=True,
        help_text="Brokers that came here of late, though another node is the controller.",
    )
    made_way_for = models.CharField(
        max_length=32,
        default="",
        db_default="",
        blank=True,
        help_text="The run that it left the controller to, as brokers reach that one; empty: none.",
    )
    made_way_at = models.DateTimeField(null=True, help_text="When it did.")

    class Meta:
        db_table = "node_session"
        ordering = ("-started_at",)

    def __str__(self) -> str:
        return f"{self.node} ({self.run})"


class Lease(models.Model):
    """Who may write one lane. Free if `run` is null or its run has ended; each take raises the epoch."""

    name = models.CharField(max_length=NAME_LENGTH, primary_key=True)
    run = models.CharField(max_length=32, null=True, blank=True)
    epoch = models.BigIntegerField(default=0)

    class Meta:
        db_table = "lease"
        ordering = ("name",)

    def __str__(self) -> str:
        return self.name


class JournalEntry(models.Model):
    """One turn: why, what it did, and the records from which its state can be folded again."""

    lane = models.CharField(max_length=NAME_LENGTH)
    seq = models.BigIntegerField(help_text="Gapless within the lane.")
    turn_id = models.UUIDField(help_text="Random; tells whether an unknown outcome was a commit.")
    node = models.CharField(max_length=NAME_LENGTH)
    key = models.CharField(max_length=KEY_LENGTH, help_text="The group, or the cluster.")
    cause = models.CharField(max_length=200)
    summary = models.JSONField(default=dict)
    records = models.JSONField(default=list)
    at = models.DateTimeField(db_default=Now())

    class Meta:
        db_table = "journal"
        verbose_name_plural = "journal"
        ordering = ("-id",)
        constraints = (models.UniqueConstraint(fields=("lane", "seq"), name="journal_lane_seq"),)
        indexes = (
            models.Index(fields=("key", "-id"), name="journal_by_key"),
            models.Index(fields=("at",), name="journal_by_time"),
            # Who did what is asked for often, and few turns of many were asked for by somebody.
            models.Index(
                fields=("-id",),
                name="journal_asked",
                condition=Q(summary__has_any_keys=["asked", "principal"]),
            ),
            # What is gone now is found by the turns that took it away.
            models.Index(
                fields=("-id",),
                name="journal_removals",
                condition=Q(lane="controller", summary__has_any_keys=["topics_deleted", "topics_shrunk"]),
            ),
            # What a partition was is found by the versions of its rows: each names one turn.
            models.Index(
                Cast(KeyTextTransform("metadata_version", "summary"), models.BigIntegerField()),
                name="journal_by_metadata_version",
                condition=Q(lane="controller"),
            ),
        )

    def __str__(self) -> str:
        return f"{self.lane} {self.seq}: {self.cause}"


class Refusal(models.Model):
    """What turns of one node refused by a mistake of ours, alike taken together; written beside turns."""

    node = models.CharField(max_length=NAME_LENGTH, help_text="On whose log the traceback stands.")
    lane = models.CharField(max_length=NAME_LENGTH)
    events = models.CharField(
        max_length=200, help_text="Which kinds; empty: what a turn goes on with by itself."
    )
    error = models.CharField(max_length=100)
    key = models.CharField(max_length=KEY_LENGTH, help_text="The group, or the cluster, of the last one.")
    text = models.CharField(max_length=300, help_text="What the error said first, the last time.")
    number = models.BigIntegerField(help_text="How many since `first_at`.")
    first_at = models.DateTimeField(db_default=Now())
    last_at = models.DateTimeField(db_default=Now())

    class Meta:
        db_table = "refusal"
        ordering = ("-last_at",)
        constraints = (
            models.UniqueConstraint(fields=("node", "lane", "events", "error"), name="refusal_of_a_kind"),
        )

    def __str__(self) -> str:
        return f"{self.lane} {self.events}: {self.error}"


class WorkItem(models.Model):
    """Work due: a rebalance attempt, a controller task, an operator's request (design chapter 2)."""

    class State(models.TextChoices):
        """due → claimed → done → adopted; a claim that stood too long goes back to due."""

        DUE = "due"
        CLAIMED = "claimed"
        DONE = "done"
        ADOPTED = "adopted"

    id = models.UUIDField(primary_key=True, default=uuid.uuid4)
    kind = models.CharField(max_length=NAME_LENGTH)
    lane = models.CharField(max_length=NAME_LENGTH, help_text="Whose owner adopts the result.")
    key = models.CharField(max_length=KEY_LENGTH)
    based_on = models.BigIntegerField(null=True, help_text="The row's version that it was offered on.")
    principal = models.CharField(
        max_length=150, blank=True, default="", help_text="Who asked; empty: a lane."
    )
    reason = models.TextField(blank=True, default="")
    idempotency_key = models.CharField(max_length=NAME_LENGTH, null=True, blank=True)
    payload = models.JSONField(default=dict)
    state = models.CharField(max_length=8, choices=State.choices, default=State.DUE)
    claim_epoch = models.IntegerField(default=0, help_text="Counts the attempts.")
    claimed_by = models.CharField(max_length=NAME_LENGTH, blank=True, default="")
    result = models.JSONField(null=True)
    error = models.TextField(blank=True, default="", help_text="Why it failed; empty: it did not.")
    offered_at = models.DateTimeField(db_default=Now())
    wanted_until = models.DateTimeField(
        null=True,
        help_text="Nobody waits later, and its owner refuses it; NULL: the answer is always wanted.",
    )
    claimed_at = models.DateTimeField(null=True)
    finished_at = models.DateTimeField(null=True)
    adopted_at = models.DateTimeField(null=True)

    class Meta:
        db_table = "work_item"
        ordering = ("-offered_at",)
        constraints = (
            models.CheckConstraint(
                name="work_item_state_known", condition=Q(state__in=("due", "claimed", "done", "adopted"))
            ),
            models.UniqueConstraint(
                F("principal"),
                F("idempotency_key"),
                name="work_item_asked_once",
                condition=Q(idempotency_key__isnull=False),
            ),
        )
        indexes = (
            models.Index(
                fields=("lane", "kind", "key"), name="work_item_open", condition=~Q(state="adopted")
            ),
            models.Index(fields=("adopted_at",), name="work_item_adopted", condition=Q(state="adopted")),
            models.Index(
                fields=("-offered_at", "-id"),
                name="work_item_controller_requests",
                condition=Q(kind="controller.request"),
            ),
            models.Index(
                fields=("key", "-offered_at", "-id"),
                name="work_item_group_requests",
                condition=Q(kind="group.request"),
            ),
            # Once an item, behind its way: it is not written again when it is claimed and done.
            models.Index(
                fields=("claimed_at", "claimed_by"),
                name="work_item_taken",
                condition=Q(state="adopted", claimed_at__isnull=False),
            ),
        )

    def __str__(self) -> str:
        return f"{self.kind} {self.key} ({self.state})"
