"""Adds how far a log got a minute ago and before: a partition that stands still is told from one that rests."""

from typing import ClassVar

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies: ClassVar = [("controller", "0002_room_for_changed_partitions")]
    operations: ClassVar = [
        migrations.AddField(
            "partitionprogress",
            "recent_high_watermark",
            models.BigIntegerField(null=True, help_text="What it was at `recent_at`."),
        ),
        migrations.AddField(
            "partitionprogress",
            "recent_at",
            models.DateTimeField(null=True, help_text="At most a minute before `at`."),
        ),
        migrations.AddField(
            "partitionprogress",
            "earlier_high_watermark",
            models.BigIntegerField(null=True, help_text="What it was at `earlier_at`."),
        ),
        migrations.AddField(
            "partitionprogress",
            "earlier_at",
            models.DateTimeField(null=True, help_text="A minute or more before `at`, two at most."),
        ),
    ]
