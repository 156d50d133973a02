"""A data folder tells after a crash whether the log may have lost its tail, and never forgets to say so."""

import json
import shutil
from pathlib import Path

import pytest

from broker.folder import (
    CLEAN_SHUTDOWN_FILE,
    COUNTERPART_FILE,
    IDENTITY_FILE,
    MARK_FILE,
    DataFolder,
    FolderError,
)


def started(path: Path, boot: str, *, registered: bool = True, clean: bool = False) -> bool:
    """One life of a broker on this folder; what it said of its tail."""
    with DataFolder(path, broker_id=1) as folder:
        folder.open(boot)
        lost = folder.lost_tail
        if registered:
            folder.registered("a-cluster")
        if clean:
            folder.mark_clean()
        return lost


def test_a_new_folder_has_lost_everything(tmp_path: Path) -> None:
    assert started(tmp_path / "data", "boot-1") is True


def test_a_kill_on_a_running_machine_loses_nothing(tmp_path: Path) -> None:
    started(tmp_path, "boot-1")
    assert started(tmp_path, "boot-1") is False


def test_a_machine_crash_may_lose_the_tail(tmp_path: Path) -> None:
    started(tmp_path, "boot-1")
    assert started(tmp_path, "boot-2") is True


def test_a_clean_stop_before_a_reboot_loses_nothing(tmp_path: Path) -> None:
    started(tmp_path, "boot-1", clean=True)
    assert started(tmp_path, "boot-2") is False


def test_the_clean_mark_holds_for_one_start(tmp_path: Path) -> None:
    started(tmp_path, "boot-1", clean=True)
    started(tmp_path, "boot-2")
    assert not (tmp_path / CLEAN_SHUTDOWN_FILE).exists()
    assert started(tmp_path, "boot-3") is True


def test_a_broker_killed_before_its_hello_confesses_at_the_next(tmp_path: Path) -> None:
    started(tmp_path, "boot-1")
    assert started(tmp_path, "boot-2", registered=False) is True
    assert started(tmp_path, "boot-2") is True
    assert started(tmp_path, "boot-2") is False


def test_who_is_killed_while_it_opens_its_logs_leaves_the_doubt_about_small_files(tmp_path: Path) -> None:
    started(tmp_path, "boot-1")
    believed = []
    for registered in (False, True, True):
        with DataFolder(tmp_path, broker_id=1) as folder:
            folder.open("boot-2")
            believed.append(folder.same_boot)
            if registered:
                folder.registered("a-cluster")
    assert believed == [False, False, True]


@pytest.mark.parametrize("clean", [False, True])
def test_logs_that_were_deleted_beside_the_identity_are_confessed_once(tmp_path: Path, clean: bool) -> None:
    logs = tmp_path / "partitions"
    started(tmp_path, "boot-1", clean=clean)
    for file in logs.iterdir():
        file.unlink()
    with DataFolder(tmp_path, broker_id=1) as folder:
        folder.open("boot-1")
        assert (folder.lost_tail, folder.stopped_cleanly, folder.same_boot) == (True, False, False)
        folder.registered("a-cluster")
    assert started(tmp_path, "boot-1", clean=clean) is False
    shutil.rmtree(logs)
    assert started(tmp_path, "boot-1", registered=False) is True, "as if another disk were mounted there"
    assert started(tmp_path, "boot-1") is True, "also when it was killed before its hello"
    assert started(tmp_path, "boot-1") is False


def test_other_logs_in_the_place_of_the_own_are_confessed(tmp_path: Path) -> None:
    started(tmp_path / "own", "boot-1")
    started(tmp_path / "another", "boot-1")
    shutil.rmtree(tmp_path / "own" / "partitions")
    shutil.copytree(tmp_path / "another" / "partitions", tmp_path / "own" / "partitions")
    assert started(tmp_path / "own", "boot-1") is True
    assert started(tmp_path / "own", "boot-1") is False


def test_older_logs_of_the_same_broker_are_confessed(tmp_path: Path) -> None:
    """A file backup of them, read in while the broker was stopped."""
    logs, backup = tmp_path / "partitions", tmp_path / "backup"
    started(tmp_path, "boot-1")
    shutil.copytree(logs, backup)
    assert started(tmp_path, "boot-1", clean=True) is False
    shutil.rmtree(logs)
    shutil.copytree(backup, logs)
    assert started(tmp_path, "boot-1") is True
    assert started(tmp_path, "boot-1", clean=True) is False
    shutil.copytree(logs, tmp_path / "moved")
    shutil.rmtree(logs)
    shutil.copytree(tmp_path / "moved", logs)
    assert started(tmp_path, "boot-1") is False, "the same ones on another disk"


@pytest.mark.parametrize("without_room", [f"{MARK_FILE}.new", f"partitions/{COUNTERPART_FILE}.new"])
def test_a_clean_stop_that_finds_no_room_for_another_word_loses_nothing(
    tmp_path: Path, without_room: str
) -> None:
    started(tmp_path, "boot-1")
    (tmp_path / without_room).mkdir()
    assert started(tmp_path, "boot-1", clean=True) is False
    (tmp_path / without_room).rmdir()
    assert started(tmp_path, "boot-2") is False


def test_a_folder_of_before_marks_its_logs_and_has_lost_nothing(tmp_path: Path) -> None:
    started(tmp_path, "boot-1")
    (tmp_path / MARK_FILE).unlink()
    for file in (tmp_path / "partitions").iterdir():
        file.unlink()
    assert started(tmp_path, "boot-1") is False
    assert (tmp_path / MARK_FILE).exists()


def test_an_unknown_boot_id_counts_as_another_one(tmp_path: Path) -> None:
    started(tmp_path, "")
    assert started(tmp_path, "") is True


def test_two_processes_cannot_share_a_folder(tmp_path: Path) -> None:
    with DataFolder(tmp_path, broker_id=1) as first:
        first.open("boot-1")
        with pytest.raises(FolderError, match="in use by another broker"):
            DataFolder(tmp_path, broker_id=1).open("boot-1")


@pytest.mark.parametrize("below", ["", "data", "two/folders"])
def test_a_file_in_the_place_of_the_folder_is_told_with_what_to_do(tmp_path: Path, below: str) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(FolderError, match="a file lies in its way; name another folder in MUSTER_"):
        DataFolder(tmp_path / "file" / below, broker_id=1).open("boot-1")


def test_another_brokers_folder_is_refused(tmp_path: Path) -> None:
    started(tmp_path, "boot-1")
    with pytest.raises(FolderError, match="logs of broker 1, not 2"):
        DataFolder(tmp_path, broker_id=2).open("boot-1")


@pytest.mark.parametrize(
    ("broker_id", "only_cluster", "said"),
    [(2, "", "logs of broker 1, not 2"), (1, "another", "belongs to cluster a-cluster; MUSTER_CLUSTER_ID")],
)
def test_whoever_may_not_have_a_folder_leaves_it_as_it_was(
    tmp_path: Path, broker_id: int, only_cluster: str, said: str
) -> None:
    """A slip took the mark of a clean stop: after a reboot the right broker confessed a lost tail."""
    with DataFolder(tmp_path, broker_id=1) as folder:
        folder.open("boot-1")
        folder.registered("a-cluster")
        folder.mark_clean()
    with pytest.raises(FolderError, match=said):
        DataFolder(tmp_path, broker_id, only_cluster).open("boot-2")
    with DataFolder(tmp_path, broker_id=1, only_cluster="a-cluster") as folder:
        folder.open("boot-2")
        assert folder.stopped_cleanly and not folder.lost_tail


def test_another_clusters_records_are_not_mixed_in(tmp_path: Path) -> None:
    started(tmp_path, "boot-1")
    with DataFolder(tmp_path, broker_id=1) as folder:
        folder.open("boot-1")
        assert folder.cluster_id == "a-cluster"
        with pytest.raises(FolderError, match="belongs to cluster a-cluster"):
            folder.registered("another")


def test_the_highest_version_that_was_applied_outlives_its_process(tmp_path: Path) -> None:
    with DataFolder(tmp_path, broker_id=1) as folder:
        folder.open("boot-1")
        folder.registered("a-cluster")
        folder.note_version(41)
        folder.note_version(7)
    with DataFolder(tmp_path, broker_id=1) as folder:
        folder.open("boot-2")
        folder.registered("a-cluster")
        assert (folder.metadata_version, folder.cluster_id) == (41, "a-cluster")


def test_a_folder_of_before_knows_no_version(tmp_path: Path) -> None:
    stored = {"broker_id": 1, "cluster_id": "a-cluster", "boot_id": "boot-1", "tail_lost": False}
    (tmp_path / IDENTITY_FILE).write_text(json.dumps(stored))
    with DataFolder(tmp_path, broker_id=1) as folder:
        folder.open("boot-1")
        assert (folder.metadata_version, folder.cluster_id) == (0, "a-cluster")
