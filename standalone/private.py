"""This room keeps what nobody else on this machine may read: secrets, files, folders of sockets."""

import contextlib
import os
import secrets
import stat
from pathlib import Path
from zlib import crc32

from standalone.children import StartError

LONGEST_SOCKET_PATH_BYTES = 107
# Not $TMPDIR: whoever asks a running stack from another shell must find the same folder.
SHORT_ROOM = Path("/tmp")


def write_private(path: Path, text: str) -> None:
    """Replace ``path`` at once by a file that only we can read. Raises OSError, the old file untouched."""
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    draft.unlink(missing_ok=True)
    try:
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)


def kept_secret(path: Path) -> str:
    """The content of ``path``; 24 random bytes, written there, when there is none."""
    if not path.exists() or not path.stat().st_size:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        write_private(path, secrets.token_urlsafe(24))
    return path.read_text(encoding="utf-8").strip()


def socket_folder(beside: Path, longest_name: str) -> Path:
    """``beside``, or a short folder of ours where a socket's path would be too long for the kernel."""
    if len(str(beside / longest_name).encode()) <= LONGEST_SOCKET_PATH_BYTES:
        return beside
    return SHORT_ROOM / f"muster-{os.getuid()}-{crc32(str(beside).encode())}"


def make_socket_folder(folder: Path) -> None:
    """Make a folder that only we enter. Raises StartError where somebody else made one of that name first."""
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    if folder.parent != SHORT_ROOM:
        return
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid():
        raise StartError(f"{folder} belongs to somebody else; remove it, or choose a shorter MUSTER_HOME.")
    folder.chmod(0o700)


def forget_socket_folder(folder: Path) -> None:
    """Remove a short folder, which lies outside of the home, once it is empty."""
    if folder.parent == SHORT_ROOM:
        with contextlib.suppress(OSError):
            folder.rmdir()
