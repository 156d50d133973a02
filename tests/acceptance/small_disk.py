"""This room is a small file system for one broker, which a test can fill and empty again."""

import errno
import os
import subprocess
from pathlib import Path
from typing import Final

MIB: Final = 1024 * 1024


class SmallDisk:
    """A tmpfs at `folder`, where this process may mount one; else `missing` says why there is none.

    `files`: how many it takes, folders counted; 0: any number.
    """

    def __init__(self, folder: Path, size_mib: int, files: int = 0) -> None:
        self.folder = folder
        self.missing = "" if os.geteuid() == 0 else "only root may mount a small disk"
        folder.mkdir(parents=True)
        if not self.missing:
            command = [
                "mount",
                "-t",
                "tmpfs",
                "-o",
                f"size={size_mib}m,nr_inodes={files}",
                "none",
                str(folder),
            ]
            done = subprocess.run(command, capture_output=True, text=True)
            self.missing = done.stderr.strip()

    @property
    def free_bytes(self) -> int:
        told = os.statvfs(self.folder)
        return told.f_bavail * told.f_frsize

    def fill(self, leave_bytes: int) -> None:
        """Let no more than so much be free, whoever else writes there meanwhile."""
        with self._ballast.open("ab", buffering=0) as file:
            while (more := self.free_bytes - leave_bytes) > 0:
                try:
                    file.write(bytes(min(more, MIB)))
                except OSError as error:
                    # Somebody took the last of it between the look and the write: full is what was wanted.
                    if error.errno != errno.ENOSPC:
                        raise
                    return

    def empty(self) -> None:
        """Take away what filled it."""
        self._ballast.unlink(missing_ok=True)

    def unmount(self) -> None:
        if not self.missing:
            subprocess.run(["umount", "-l", str(self.folder)], check=True)

    @property
    def _ballast(self) -> Path:
        return self.folder / "ballast"
