"""Lets the cluster's row keep which metadata version a promoted database had before its epochs were lifted."""

from typing import ClassVar

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies: ClassVar = [("runtime", "0008_what_turns_refused")]
    operations: ClassVar = [
        migrations.AddField(
            "cluster",
            "proven_version",
            models.BigIntegerField(
                default=0,
                db_default=0,
                help_text="metadata_version before the last promotion; 0: none is believed.",
            ),
        ),
    ]
