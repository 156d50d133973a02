"""A home is a folder that was empty or that a stack made; `make clean` deletes what its list names, only."""

import json
import os
import pwd
from pathlib import Path

import pytest

from standalone import belongings
from standalone.belongings import LIST_FILE, NotAHome, claim, known
from standalone.folder import held, names_of_a_stack, remove
from standalone.postgres import POINTER

COMMON_NAMES = ("log", "secrets", "run", "redis", "postgres", "evidence", "spark", "broker-1")


def _project(folder: Path) -> dict[str, str]:
    """Somebody's folder, with names as anybody gives them."""
    for name in COMMON_NAMES:
        (folder / name).mkdir(parents=True)
        (folder / name / "mine.txt").write_text(name, encoding="utf-8")
    return _texts(folder)


def _texts(folder: Path) -> dict[str, str]:
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path.read_text(encoding="utf-8") for path in files}


def test_a_folder_with_somebodys_files_is_refused_and_stays_as_it_is(tmp_path: Path) -> None:
    mine = _project(tmp_path)
    refused = pytest.raises(NotAHome, match=r"is not empty, and no stack made it \(broker-1, evidence, log")
    with refused, held(tmp_path, brokers=1):
        pass
    remove(tmp_path)
    assert _texts(tmp_path) == mine


def test_what_came_into_a_home_later_is_neither_used_nor_deleted(tmp_path: Path) -> None:
    home = tmp_path / "home"
    with held(home, brokers=1):
        pass
    (home / "broker-2").mkdir()
    (home / "broker-2" / "mine.txt").write_text("mine", encoding="utf-8")
    with pytest.raises(NotAHome, match="broker-2 was not put there by a stack"), held(home, brokers=2):
        pass
    assert remove(home) == ["broker-2"]
    assert (home / "broker-2" / "mine.txt").read_text(encoding="utf-8") == "mine"


def test_links_are_deleted_and_not_followed(tmp_path: Path) -> None:
    home, elsewhere = tmp_path / "home", tmp_path / "elsewhere"
    mine = _project(elsewhere)
    with held(home, brokers=1):
        pass
    for name in ("broker-1", "postgres", "spark"):
        (home / name).symlink_to(elsewhere / name)
    (home / "log").rmdir()
    (home / "log").symlink_to(elsewhere)
    assert remove(home) == [] and not home.exists()
    assert _texts(elsewhere) == mine


@pytest.mark.parametrize("entry", ["..", ".", "", "../elsewhere", "/etc"])
def test_a_list_that_names_another_folder_is_not_obeyed(tmp_path: Path, entry: str) -> None:
    home, elsewhere = tmp_path / "home", tmp_path / "elsewhere"
    mine = _project(elsewhere)
    with held(home):
        pass
    told = json.loads((home / LIST_FILE).read_text(encoding="utf-8"))
    (home / LIST_FILE).write_text(json.dumps({**told, "names": [*told["names"], entry]}), encoding="utf-8")
    assert remove(home) == [] and _texts(elsewhere) == mine


def test_the_root_of_all_and_a_persons_home_are_no_homes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    for folder in (Path("/"), tmp_path, tmp_path / "log" / ".."):
        with pytest.raises(NotAHome, match="is no folder for a stack alone"):
            claim(folder, ["log"])
    assert remove(tmp_path) == [] and tmp_path.is_dir()


def test_the_demos_home_inside_is_no_stranger(tmp_path: Path) -> None:
    with held(tmp_path / "demo"):
        pass
    with held(tmp_path):
        pass
    assert remove(tmp_path) == []


def test_a_file_is_no_home(tmp_path: Path) -> None:
    mine = tmp_path / "notes"
    mine.write_text("mine", encoding="utf-8")
    with pytest.raises(NotAHome, match="notes is a file, no folder: name another with MUSTER_HOME"):
        claim(mine, ["log"])
    assert mine.read_text(encoding="utf-8") == "mine"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
@pytest.mark.parametrize(
    ("user", "named"), [(pwd.getpwnam("nobody").pw_uid, "nobody"), (54321, "user 54321")]
)
def test_another_users_home_is_refused_and_stays_as_it_is(tmp_path: Path, user: int, named: str) -> None:
    with held(tmp_path):
        os.chown(tmp_path / LIST_FILE, user, -1)
    before = _texts(tmp_path)
    refused = pytest.raises(NotAHome, match=rf"is {named}'s, .*: run it as {named}, or name another folder")
    with refused, held(tmp_path):
        pass
    assert _texts(tmp_path) == before


@pytest.mark.skipif(os.geteuid() != 0, reason="only root becomes somebody else")
def test_whoever_cannot_even_read_the_list_of_a_home_is_told_whose_it_is(tmp_path: Path) -> None:
    with held(tmp_path):
        pass
    for folder in (tmp_path, *tmp_path.parents[:-2]):
        folder.chmod(0o755)
    os.seteuid(pwd.getpwnam("nobody").pw_uid)
    try:
        with pytest.raises(NotAHome, match=r"is root's, .*: run it as root"):
            claim(tmp_path, ())
    finally:
        os.seteuid(0)


def test_a_stranger_inside_called_demo_is_one(tmp_path: Path) -> None:
    mine = _project(tmp_path / "demo")
    with pytest.raises(NotAHome, match=r"no stack made it \(demo"):
        claim(tmp_path, ["log"])
    remove(tmp_path)
    assert _texts(tmp_path / "demo") == mine


def test_what_a_start_that_was_killed_left_is_empty_enough(tmp_path: Path) -> None:
    (tmp_path / f".{LIST_FILE}.4711").write_text("{", encoding="utf-8")
    with held(tmp_path, brokers=1):
        pass
    assert remove(tmp_path) == []


# --- homes of the version before, which had no list ---------------------------------------------------------


@pytest.fixture
def earlier(tmp_path: Path) -> Path:
    """A home as the version before left it."""
    home = tmp_path / "home"
    written = {
        "stack.lock": "4711",
        "stack.json": '{\n  "bootstrap": "127.0.0.1:12000"\n}',
        "log/web.log": "",
        "log/broker-1.log.1": "",
        "log/consumer-ann.log": "",
        "run/supervisor.conf": "",
        "secrets/broker-1": "",
        "secrets/secret_key": "",
        "redis/redis.conf": "",
        "broker-1/broker.json": "{}",
        "broker-1/partitions/orders-0/00000000000000000000.log": "",
        "evidence/ann": "",
        "spark/spark-warehouse/x": "",
    }
    for name, text in written.items():
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_text(text, encoding="utf-8")
    return home


def test_an_earlier_home_is_deleted_whole(earlier: Path) -> None:
    assert remove(earlier) == [] and not earlier.exists()


def test_an_earlier_home_goes_on(earlier: Path) -> None:
    with held(earlier, brokers=3) as found:
        assert set(found.names) == {*names_of_a_stack(3)}
    assert (earlier / "broker-1" / "broker.json").exists()
    assert known(earlier) == found


def test_in_an_earlier_home_a_name_alone_proves_nothing(tmp_path: Path) -> None:
    """The version before took any folder, and this one was somebody's project."""
    mine = _project(tmp_path)
    (tmp_path / "stack.lock").write_text("4711", encoding="utf-8")
    (tmp_path / "stack.json").write_text("[]", encoding="utf-8")
    assert remove(tmp_path) == [*sorted(COMMON_NAMES), "stack.json"]
    assert {name: text for name, text in _texts(tmp_path).items() if name != "stack.json"} == mine


def test_a_pointer_that_is_somebodys_own_file_stays(earlier: Path) -> None:
    (earlier / POINTER).write_text("my postgres notes", encoding="utf-8")
    assert remove(earlier) == [POINTER]


def test_the_list_is_written_before_anything_that_it_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full_disk(path: Path, text: str) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(belongings, "write_private", full_disk)
    with pytest.raises(OSError, match="No space left"), held(tmp_path / "home"):
        pass
    assert list((tmp_path / "home").iterdir()) == []
