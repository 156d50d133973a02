"""Lets nodes say which brokers come to them, and one that brokers do not reach to whom it left the controller."""

from typing import ClassVar

from django.contrib.postgres.fields import ArrayField
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies: ClassVar = [("runtime", "0014_until_when_an_answer_is_wanted")]
    operations: ClassVar = [
        migrations.AddField(
            "nodesession",
            "came",
            ArrayField(
                models.IntegerField(),
                default=list,
                db_default=[],
                blank=True,
                help_text="Brokers that came here of late, though another node is the controller.",
            ),
        ),
        migrations.AddField(
            "nodesession",
            "made_way_for",
            models.CharField(
                max_length=32,
                default="",
                db_default="",
                blank=True,
                help_text="The run that it left the controller to, as brokers reach that one; empty: none.",
            ),
        ),
        migrations.AddField(
            "nodesession", "made_way_at", models.DateTimeField(null=True, help_text="When it did.")
        ),
    ]
