"""Makes the projection of assignments a column beside them: a table of its own doubled what a Sync costs."""

from typing import ClassVar

from django.db import migrations, models
from django.db.models import Value

VIEW = """
CREATE VIEW observed_assignment AS
SELECT m.group_name, m.member_id, o.key AS topic_name,
       ARRAY(SELECT jsonb_array_elements(o.value)::int) AS partitions
FROM classic_member m, jsonb_each(m.observed) o
"""


class Migration(migrations.Migration):
    dependencies: ClassVar = [("groups", "0004_classic_members")]
    operations: ClassVar = [
        migrations.DeleteModel("ObservedAssignment"),
        migrations.AddField(
            "classicmember",
            "observed",
            models.JSONField(
                db_default=Value({}, models.JSONField()),
                help_text="Partitions by topic, if its assignment can be read; see `ObservedAssignment`.",
            ),
        ),
        migrations.RunSQL(VIEW, "DROP VIEW observed_assignment"),
        migrations.CreateModel(
            name="ObservedAssignment",
            fields=[],
            options={"db_table": "observed_assignment", "managed": False},
        ),
    ]
