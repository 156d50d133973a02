"""Lets a request say until when somebody waits: what was told to have no answer is not carried out later."""

from typing import ClassVar

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies: ClassVar = [("runtime", "0013_who_took_what_was_adopted")]
    operations: ClassVar = [
        migrations.AddField(
            "workitem",
            "wanted_until",
            models.DateTimeField(
                null=True,
                help_text="Nobody waits later, and its owner refuses it; NULL: the answer is always wanted.",
            ),
        ),
    ]
