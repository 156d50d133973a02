"""This room holds the rows of elections that may have lost records; `controller.models` names them."""

from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import Q
from django.db.models.functions import Now

_NAME_LENGTH = 249
"""As that of a topic."""


class ElectionLoss(models.Model):
    """An election that may have lost records: what was known before, and what replicas told of it since.

    It stays when its topic is deleted. `committed` is what the last leader had said; more may have been.
    """

    topic_id = models.UUIDField(help_text="Of the topic; it may be deleted by now.")
    topic_name = models.CharField(max_length=_NAME_LENGTH, db_collation="C")
    partition = models.IntegerField()
    leader_epoch = models.IntegerField(help_text="Of the election.")
    leader = models.IntegerField(help_text="Who was elected.")
    isr = ArrayField(models.IntegerField(), help_text="Who held all that was committed.")
    reason = models.TextField(help_text="Why records may be lost, and who asked for it.")
    committed = models.BigIntegerField(null=True, help_text="Up to where, as the last leader had said.")
    committed_at = models.DateTimeField(null=True, help_text="When it said so.")
    start_offset = models.BigIntegerField(
        null=True, help_text="Where the new leader's log ended then; NULL: not told, or not known."
    )
    told_at = models.DateTimeField(null=True, help_text="When the new leader told, if only that it forgot.")
    cuts = models.JSONField(
        default=list, help_text="What others held and lost: controller.core.loss_rows.Cut, each a list."
    )
    cut_at = models.DateTimeField(null=True, help_text="When one of them told last.")
    acknowledged_at = models.DateTimeField(null=True)
    acknowledged_by = models.CharField(max_length=_NAME_LENGTH, default="", blank=True)
    acknowledged_why = models.TextField(default="", blank=True)
    closed = models.BooleanField(default=False, help_text="Nobody will tell more of it.")
    version = models.BigIntegerField(help_text="metadata_version of the turn that last changed it.")
    elected_at = models.DateTimeField(db_default=Now())

    class Meta:
        db_table = "election_loss"
        verbose_name_plural = "election losses"
        ordering = ("-id",)
        constraints = (
            models.UniqueConstraint(
                name="election_loss_is_unique", fields=("topic_id", "partition", "leader_epoch")
            ),
        )
        indexes = (
            models.Index(name="election_loss_open", fields=("topic_id",), condition=Q(closed=False)),
            models.Index(name="election_loss_by_topic", fields=("topic_name", "id")),
        )

    def __str__(self) -> str:
        return f"{self.topic_name}-{self.partition} in leader epoch {self.leader_epoch}"
