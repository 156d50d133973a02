"""This room compresses large journal entries and results by lz4, where the server can."""

from django.db import migrations

# The journal entry of 10,000 elections is 1.2 MB: pglz takes tens of milliseconds of the turn for it.
LZ4 = """
DO $$ BEGIN
    ALTER TABLE journal ALTER COLUMN records SET COMPRESSION lz4;
    ALTER TABLE work_item ALTER COLUMN result SET COMPRESSION lz4;
EXCEPTION WHEN feature_not_supported THEN
    NULL; -- a server that was built without lz4 goes on with pglz
END $$"""

DEFAULT = """
ALTER TABLE journal ALTER COLUMN records SET COMPRESSION default;
ALTER TABLE work_item ALTER COLUMN result SET COMPRESSION default"""


class Migration(migrations.Migration):
    dependencies = [("runtime", "0001_cluster_leases_journal_work")]

    operations = [migrations.RunSQL(LZ4, DEFAULT)]
