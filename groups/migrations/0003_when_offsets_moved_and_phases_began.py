"""Adds when an offset last moved and when a phase began; who does not know the columns goes on writing rows."""

from typing import ClassVar

from django.db import migrations, models
from django.db.models.functions import Now


class Migration(migrations.Migration):
    dependencies: ClassVar = [("groups", "0002_owners_are_members")]
    operations: ClassVar = [
        migrations.AddField(
            "committedoffset",
            "moved_at",
            models.DateTimeField(
                db_default=Now(),
                help_text="When the offset was another last: the same again is no progress.",
            ),
        ),
        migrations.AddField(
            "consumergroup",
            "phase_entered_at",
            models.DateTimeField(db_default=Now(), help_text="When the phase was another last."),
        ),
    ]
