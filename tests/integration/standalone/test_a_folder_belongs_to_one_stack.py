"""A stack's folder: one holder at a time, and whoever deletes it deletes nothing else."""

import os
import shutil
from pathlib import Path

import pytest

from standalone import postgres
from standalone.children import StartError
from standalone.folder import AlreadyRunning, held, read_info, remove, update_info, write_info
from standalone.postgres import Postgres
from standalone.stack import Stack
from standalone.supervision import State, socket_path

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root's data lies elsewhere")


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A folder in which a stack ran and ended."""
    home = tmp_path / "home"
    with held(home):
        pass
    return home


def test_a_stack_that_is_refused_takes_nothing_from_the_one_that_runs(home: Path) -> None:
    with held(home):
        write_info(home, {"web": "http://127.0.0.1:12000"})
        second = Stack(home, brokers=1)
        with pytest.raises(AlreadyRunning, match=rf"process {os.getpid()}\)"):
            second.start()
        second.stop()
        assert read_info(home) == {"web": "http://127.0.0.1:12000"}


def test_what_a_killed_stack_told_is_gone_before_the_next_one_tells(home: Path) -> None:
    write_info(home, {"web": "http://127.0.0.1:12000"})
    with held(home):
        assert read_info(home) == {}


def test_what_a_killed_process_left_for_the_moment_goes_with_the_next_start(home: Path) -> None:
    (home / "tmp" / "pymp-4711").mkdir()
    with held(home):
        assert list((home / "tmp").iterdir()) == []


def test_whoever_stops_a_process_of_a_stack_that_just_ended_tells_nothing(home: Path) -> None:
    update_info(home, {"web": State("web", False, 0, "stopped")})
    assert not (home / "stack.json").exists()


def test_deleting_leaves_what_no_stack_put_there(home: Path) -> None:
    with held(home, brokers=1):
        (home / "broker-1" / "partitions").mkdir(parents=True)
    (home / "thesis.txt").write_text("years of work", encoding="utf-8")
    assert remove(home) == ["thesis.txt"]
    assert [path.name for path in home.iterdir()] == ["thesis.txt"]


def test_a_folder_in_which_no_stack_ever_ran_is_not_touched(tmp_path: Path) -> None:
    """`make clean MUSTER_HOME=$HOME`, or MUSTER_HOME= and the checkout."""
    for name in ("log", "run", "broker-1"):
        (tmp_path / name).mkdir()
    assert remove(tmp_path) == ["broker-1", "log", "run"]


def test_nothing_is_deleted_while_the_demo_runs_inside(home: Path) -> None:
    with held(home / "demo"), pytest.raises(AlreadyRunning, match="demo"):
        remove(home)
    assert (home / "demo" / "log").is_dir() and (home / "log").is_dir()
    assert remove(home) == [] and not home.exists()


def test_deleting_a_stack_deletes_the_data_that_lies_elsewhere(home: Path) -> None:
    server = Postgres(home, throw_away=True)
    server.prepare()
    assert server.data.exists()
    remove(home)
    assert not server.folder.exists() and not home.exists()


def test_deleting_a_killed_stack_with_a_long_name_deletes_its_short_folders(tmp_path: Path) -> None:
    home = tmp_path / ("long" * 40)
    with held(home):
        pass
    left = [socket_path(home).parent]
    if not Postgres(home).user:
        # Root's lies beside the data, whose folder has a short name anyway.
        left.append(Postgres(home).socket_folder)
    for folder in left:
        folder.mkdir(exist_ok=True, parents=True)
        (folder / "socket").touch()
    remove(home)
    assert not any(folder.exists() for folder in left)


def test_a_home_that_is_moved_keeps_its_data(home: Path, tmp_path: Path) -> None:
    before = Postgres(home, throw_away=True)
    before.prepare()
    (before.data / "marker").touch()
    home.rename(tmp_path / "moved")
    after = Postgres(tmp_path / "moved", throw_away=True)
    after.prepare()
    assert (after.data / "marker").exists()
    after.remove()


@as_root
def test_data_that_was_not_brought_along_is_not_begun_anew(tmp_path: Path) -> None:
    """As after a backup of the home alone: what is put back later is still its own."""
    home = tmp_path / "home"
    server = Postgres(home, throw_away=True)
    server.prepare()
    shutil.move(server.folder, tmp_path / "kept")
    with pytest.raises(StartError, match=f"data lay in {server.folder}.* is gone: put it back"):
        Postgres(home, throw_away=True).prepare()
    shutil.move(tmp_path / "kept", server.folder)
    again = Postgres(home, throw_away=True)
    again.prepare()
    assert again.data.exists() and again.folder == server.folder
    again.remove()
    assert not server.folder.exists()


def test_a_home_whose_data_alone_is_gone_begins_no_other(home: Path, tmp_path: Path) -> None:
    server = Postgres(home, throw_away=True)
    server.prepare()
    shutil.move(server.data, tmp_path / "kept")
    with pytest.raises(StartError, match=f"data lay in {server.data} and is gone: put it back"):
        Postgres(home, throw_away=True).prepare()
    assert not server.data.exists()
    shutil.move(tmp_path / "kept", server.data)
    again = Postgres(home, throw_away=True)
    again.prepare()
    again.remove()
    # Who deletes all of it begins anew.
    anew = Postgres(home, throw_away=True)
    anew.prepare()
    anew.remove()


@as_root
def test_a_pointer_that_names_nothing_costs_nobody_the_data(tmp_path: Path) -> None:
    """As one that a full disk or the end of a machine left empty."""
    home = tmp_path / "home"
    server = Postgres(home, throw_away=True)
    server.prepare()
    (home / postgres.POINTER).write_text("", encoding="utf-8")
    with pytest.raises(StartError, match="does not say where PostgreSQL's data lies"):
        Postgres(home, throw_away=True).prepare()
    assert server.data.exists()
    (home / postgres.POINTER).write_text(str(server.folder), encoding="utf-8")
    again = Postgres(home, throw_away=True)
    again.prepare()
    again.remove()


@as_root
def test_data_whose_home_is_on_a_disk_that_is_away_stays(tmp_path: Path) -> None:
    away = Path("/var/lib") / tmp_path.name / "away"
    server, another = (
        Postgres(tmp_path / "home", throw_away=True),
        Postgres(tmp_path / "other", throw_away=True),
    )
    server.prepare()
    (server.folder / postgres.BACK_POINTER).write_text(str(away), encoding="utf-8")
    another.prepare()
    assert server.data.exists()
    (server.folder / postgres.BACK_POINTER).write_text(str(tmp_path / "home"), encoding="utf-8")
    server.remove()
    another.remove()


def test_a_copy_of_a_home_neither_shares_nor_deletes_the_data_of_its_original(
    home: Path, tmp_path: Path
) -> None:
    original = Postgres(home, throw_away=True)
    if not original.user:
        pytest.skip("only root's data lies outside of its home")
    original.prepare()
    shutil.copytree(home, tmp_path / "copy")
    copy = Postgres(tmp_path / "copy", throw_away=True)
    with pytest.raises(StartError, match="is a copy of"):
        copy.prepare()
    with pytest.raises(StartError, match="is a copy of"):
        remove(tmp_path / "copy")
    assert original.data.exists()
    (tmp_path / "copy" / postgres.POINTER).unlink()
    # As it was told that it may.
    Postgres(tmp_path / "copy", throw_away=True).prepare()
    remove(tmp_path / "copy")
    assert original.data.exists()
    original.remove()
