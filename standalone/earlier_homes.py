"""This room recognises what a stack put into a home before homes had lists, by what lies inside of it.

A name alone proves nothing: anybody has a folder called log, or secrets. What is not wholly ours is nobody's.
"""

import re
from pathlib import Path

LOCK_FILE = "stack.lock"
_LOG = r"(web|redis|postgres|supervisor|setup|pipeline|(node|worker|broker)-\d+|consumer-\w+)\.log(\.1)?"
# The names that may lie in each folder; one stranger, and the folder is somebody's.
_INSIDE = {
    "log": _LOG,
    "secrets": r"\.?(database_url|redis_url|secret_key|postgres(\.begun)?|broker-\d+)(\.\d+)?",
    "run": r"\.?supervisor\.(conf|pid|sock)(\.\d+)?",
    "redis": r"\.?(redis\.conf|dump\.rdb)(\.\d+)?",
    "postgres": r"data|data\.new|socket|password",
    r"broker-\d+": r"broker\.json(\.new)?|\.lock|\.clean-shutdown|partitions|.*checkpoint.*",
    "evidence": "ann|ben|cleo",
    "spark": r"blockmgr-.*|spark-.*|artifacts|spark-warehouse|metastore_db|derby\.log",
}
# What a file of ours begins with.
_FILES = {
    LOCK_FILE: r"\d*\Z",
    "postgres.folder": r"/var/tmp/muster-postgres-\w+\s*\Z",
    "stack.json": r'\{\s*"bootstrap"',
    r"\.stack\.json\.\d+": r"\Z|\{",
}
_HEAD_BYTES = 200


def put_there_before_lists(home: Path) -> tuple[str, ...]:
    """The names that a stack put into ``home``; empty for a folder in which none ever ran."""
    if (home / "home.json").exists() or not _is_file_of_ours(home / LOCK_FILE, _FILES[LOCK_FILE]):
        return ()
    return tuple(sorted(path.name for path in home.iterdir() if _is_ours(path)))


def _is_ours(path: Path) -> bool:
    if path.is_symlink():
        return False
    if path.is_dir():
        return any(
            re.fullmatch(name, path.name) and all(re.fullmatch(inside, one.name) for one in path.iterdir())
            for name, inside in _INSIDE.items()
        )
    return any(
        re.fullmatch(name if name.startswith("\\") else re.escape(name), path.name)
        and _is_file_of_ours(path, head)
        for name, head in _FILES.items()
    )


def _is_file_of_ours(path: Path, head: str) -> bool:
    if path.is_symlink() or not path.is_file():
        return False
    with path.open("rb") as file:
        return re.match(head, file.read(_HEAD_BYTES).decode(errors="replace")) is not None
