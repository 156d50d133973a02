"""This room holds the rows of what brokers say of partitions; `controller.models` names them."""

from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import Q

LOG_STATES = ("offline", "damaged", "mended", "leaderless")
"""Those of `muster.messages.link.condition`."""


class LogNote(models.Model):
    """What is to be said of one log of one broker, as it said last; told to people and clients, no more."""

    broker_id = models.IntegerField()
    topic_id = models.UUIDField(help_text="Of the topic; it may be deleted by now.")
    partition = models.IntegerField()
    state = models.CharField(max_length=10)
    why = models.TextField(default="", blank=True)
    end_offset = models.BigIntegerField(null=True, help_text="Where the log ends; NULL: not said.")
    since = models.DateTimeField()

    class Meta:
        db_table = "log_note"
        ordering = ("broker_id", "topic_id", "partition")
        constraints = (
            models.UniqueConstraint(name="log_note_is_unique", fields=("topic_id", "partition", "broker_id")),
            models.CheckConstraint(name="log_note_state_is_known", condition=Q(state__in=LOG_STATES)),
        )
        indexes = (models.Index(name="log_note_by_broker", fields=("broker_id", "state")),)

    def __str__(self) -> str:
        return f"{self.topic_id}-{self.partition} on broker {self.broker_id}: {self.state}"


class LagNote(models.Model):
    """Where a leader refuses acks=all as live members of the ISR lag, as it said last; never decided on.

    By the row of the partition all is well: its last min.insync.replicas members stay in the ISR.
    """

    broker_id = models.IntegerField(help_text="Who said it; it counts while that one leads.")
    topic_id = models.UUIDField(help_text="Of the topic; it may be deleted by now.")
    partition = models.IntegerField()
    lagging = ArrayField(models.IntegerField(), help_text="Members of the ISR that have a session.")
    since = models.DateTimeField()

    class Meta:
        db_table = "lag_note"
        ordering = ("broker_id", "topic_id", "partition")
        constraints = (
            models.UniqueConstraint(name="lag_note_is_unique", fields=("topic_id", "partition", "broker_id")),
            models.CheckConstraint(name="lag_note_names_somebody", condition=Q(lagging__len__gte=1)),
        )

    def __str__(self) -> str:
        return f"{self.topic_id}-{self.partition} at broker {self.broker_id}: {self.lagging} lag"
