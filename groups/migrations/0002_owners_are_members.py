"""Says in PostgreSQL what Django's models cannot: owners are members, and offsets are updated in place."""

from django.db import migrations

OWNERS_ARE_MEMBERS = """
ALTER TABLE partition_ownership ADD CONSTRAINT partition_ownership_owner_is_a_member
FOREIGN KEY (group_name, owner) REFERENCES group_member (group_name, member_id)
DEFERRABLE INITIALLY DEFERRED
"""

# A commit changes no indexed column: with room left in each page the new row stays beside the old one
# (a heap-only update) and the indexes are not touched; without it they grew tenfold within a minute.
ROOM_FOR_UPDATES = """
ALTER TABLE committed_offset SET (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.02);
ALTER TABLE partition_ownership SET (fillfactor = 70);
ALTER TABLE consumer_group SET (fillfactor = 50)
"""
ROOM_AS_BEFORE = """
ALTER TABLE committed_offset RESET (fillfactor, autovacuum_vacuum_scale_factor);
ALTER TABLE partition_ownership RESET (fillfactor);
ALTER TABLE consumer_group RESET (fillfactor)
"""


class Migration(migrations.Migration):
    """Adds a composite foreign key and the tables' fill factors."""

    dependencies = (("groups", "0001_groups_members_ownership_offsets"),)

    operations = (
        migrations.RunSQL(
            OWNERS_ARE_MEMBERS,
            "ALTER TABLE partition_ownership DROP CONSTRAINT partition_ownership_owner_is_a_member",
        ),
        migrations.RunSQL(ROOM_FOR_UPDATES, ROOM_AS_BEFORE),
    )
