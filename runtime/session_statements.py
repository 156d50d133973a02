"""This room words what a node's session says: its run begins, renews and looks (leases.md section 2)."""

from typing import Final

RENEW: Final = """
WITH mine AS (
    UPDATE node_session
    SET renewals = renewals + 1, renewed_at = now(), pid = pg_backend_pid(),
        backend_start = (SELECT backend_start FROM pg_stat_activity WHERE pid = pg_backend_pid()),
        came = %(came)s::int[], made_way_for = %(made_way_for)s::text,
        made_way_at = CASE %(made_way_for)s::text
            WHEN '' THEN NULL WHEN made_way_for THEN made_way_at ELSE now() END
    WHERE run = %(run)s AND NOT ended AND to_regclass('lease') = %(table)s::oid
    RETURNING renewals)
SELECT (SELECT renewals FROM mine),
       (SELECT json_agg(json_build_array(
            s.run, s.node, coalesce(s.addresses ->> 'websocket', ''), s.draining, s.renewals,
            EXISTS (SELECT FROM pg_stat_activity a
                    WHERE a.pid = s.pid AND a.backend_start = s.backend_start),
            coalesce(i.node_id, 0), coalesce(s.addresses ->> 'kafka', ''), s.came, s.made_way_for))
        FROM node_session s LEFT JOIN node_identity i ON i.name = s.node
        WHERE NOT s.ended AND s.run <> %(run)s),
       (SELECT json_agg(json_build_array(
            l.name, l.run, l.epoch, l.run IS NULL OR s.run IS NULL OR s.ended) ORDER BY l.name)
        FROM lease l LEFT JOIN node_session s ON s.run = l.run)
"""
BEGIN_RUN: Final = """
INSERT INTO node_session (run, node, pid, backend_start, renewals, ended, draining, addresses, version,
    started_at)
SELECT %s, %s, pid, backend_start, 0, false, false, %s::jsonb, %s, clock_timestamp()
FROM pg_stat_activity WHERE pid = pg_backend_pid()
"""
BEGIN_LINK: Final = """
SELECT pid, backend_start,
       to_regclass('lease')::oid,
       set_config('synchronous_commit', CASE told WHEN 'off' THEN 'on' ELSE told END, false)
FROM pg_stat_activity, current_setting('synchronous_commit') AS told WHERE pid = pg_backend_pid()
"""
"""Whose COMMIT returns before it is on disk acknowledges what a crash of the server takes back, and epochs go
back with it; where it is asked to wait for standbys as well, or not to, that is left as it is. Set also where
it is as it should be: what the session has not set itself, a reload of the server's files changes under it.
"""
