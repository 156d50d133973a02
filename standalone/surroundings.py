"""This room says what of an environment reaches a stack: our variables, and what any program needs."""

from collections.abc import Mapping, MutableMapping

# The commands that run, or look after, a stack; every other one works on the database that it is given.
STACK_COMMANDS = frozenset({"up", "demo", "status", "start_process", "stop_process", "remove_stack"})
# What a verb of the Makefile was asked for, and how it was called.
WISHES = frozenset({"NODES", "BROKERS", "WORKERS", "PORT", "SPEED", "FLIGHTS", "EXIT", "MAKELEVEL"})
# A shell's DATABASE_URL, PGHOST, CELERY_BROKER_URL or DJANGO_SETTINGS_MODULE means another program.
NEEDED = frozenset(
    {
        *("PATH", "HOME", "USER", "LOGNAME", "SHELL", "TERM", "TZ", "TMPDIR", "LANG", "LANGUAGE"),
        *("VIRTUAL_ENV", "JAVA_HOME", "CHROMIUM", "SSL_CERT_FILE", "SSL_CERT_DIR"),
    }
)
PREFIXES = ("MUSTER_", "PYTHON", "LC_", "LD_")


def reaches_a_stack(name: str) -> bool:
    """True for a variable that the processes of a stack may see."""
    return name in NEEDED or name.startswith(PREFIXES)


def what_reaches_a_stack(environment: Mapping[str, str]) -> dict[str, str]:
    """The environment of a stack's processes, before the stack's own variables are added."""
    return {name: value for name, value in environment.items() if reaches_a_stack(name)}


def keep_what_reaches_a_stack(environment: MutableMapping[str, str]) -> None:
    """Forget everything else: a stack's database is also prepared in the process that starts it."""
    for name in list(environment):
        if not (reaches_a_stack(name) or name in WISHES):
            del environment[name]
