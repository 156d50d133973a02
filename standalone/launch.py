"""This room starts one program as a child that cannot outlive its parent, if wanted as another user.

It is run as a file by a bare interpreter, becomes the program by exec, and imports nothing of ours:

    python -I -S standalone/launch.py PARENT SIGNAL USER FOLDER PROGRAM [ARGUMENT ...]

PARENT is the expected parent's process id, 0 for whoever started it. SIGNAL is what the kernel sends to the
program when that parent dies. USER is the name to run as, empty to stay who we are. FOLDER is where to run.
"""

import ctypes
import os
import pwd
import signal
import sys

PR_SET_PDEATHSIG = 1


def die_with_parent(parent: int, death_signal: signal.Signals) -> None:
    """Ask the kernel for ``death_signal`` when the parent dies; end at once if it is dead (Linux only)."""
    if sys.platform != "linux":
        return
    expected = parent or os.getppid()
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, int(death_signal), 0, 0, 0)
    if os.getppid() != expected:
        sys.exit(f"The parent {expected} died before its child began.")


def lead_a_session() -> None:
    """Leave the terminal, so that its Ctrl-C reaches only the process in front."""
    if os.getpgrp() == os.getpid():
        # Supervisor made us a group leader, who cannot open a session: step back into the parent's group.
        os.setpgid(0, os.getpgid(os.getppid()))
    os.setsid()


def become(user: str) -> None:
    """Drop every right that ``user`` does not have."""
    entry = pwd.getpwnam(user)
    os.setgroups([])
    os.setresgid(entry.pw_gid, entry.pw_gid, entry.pw_gid)
    os.setresuid(entry.pw_uid, entry.pw_uid, entry.pw_uid)


def main(parent: str, death_signal: str, user: str, folder: str, *command: str) -> None:
    """Set the scene and become the program."""
    if os.getsid(0) != os.getpid():
        lead_a_session()
    if user:
        become(user)
    # After the change of user, which would clear it.
    die_with_parent(int(parent), signal.Signals[f"SIG{death_signal}"])
    os.chdir(folder)
    os.execv(command[0], command)


if __name__ == "__main__":
    main(*sys.argv[1:])
