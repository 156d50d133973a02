"""Lets leader epochs of partitions that are added go on above those of partitions that were removed."""

from typing import ClassVar

from django.db import migrations, models
from django.db.models import F, Q

NEVER_LED = "partition_isr_stays_after_the_first_leader"


class Migration(migrations.Migration):
    dependencies: ClassVar = [("controller", "0011_what_brokers_say_of_themselves")]
    operations: ClassVar = [
        migrations.AddField(
            "topic",
            "removed_epoch",
            models.IntegerField(
                default=0, db_default=0, help_text="No removed partition had a higher leader epoch."
            ),
        ),
        migrations.AddField(
            "partition",
            "base_epoch",
            models.IntegerField(
                default=0, db_default=0, help_text="Leader epochs up to it were given by removed partitions."
            ),
        ),
        migrations.AddField(
            "partition",
            "added_again_at",
            models.DateTimeField(
                null=True, blank=True, help_text="When it took a number that a removed one may have had."
            ),
        ),
        migrations.AddIndex(
            "partition",
            models.Index(
                name="partition_added_again", fields=("topic", "partition"), condition=Q(base_epoch__gt=0)
            ),
        ),
        migrations.RemoveConstraint("partition", NEVER_LED),
        migrations.AddConstraint(
            "partition",
            models.CheckConstraint(
                name=NEVER_LED,
                condition=Q(isr__len__gte=1) | Q(leader=-1, leader_epoch__lte=F("base_epoch")),
            ),
        ),
    ]
