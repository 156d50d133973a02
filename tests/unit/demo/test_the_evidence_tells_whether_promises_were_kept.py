"""This room checks the checks of the demo: each must fail when its promise is broken."""

from pathlib import Path

from standalone.demo import evidence
from standalone.demo.evidence import Seen

PRODUCED = {(0, 0): b"N1", (0, 1): b"N2", (1, 0): b"N3"}


def seen(*places: tuple[int, int, bytes], tenure: int = 1) -> list[Seen]:
    return [Seen(partition, offset, tenure, key) for partition, offset, key in places]


def test_a_record_seen_twice_counts_as_consumed() -> None:
    lines = {"ann": seen((0, 0, b"N1"), (0, 1, b"N2")), "ben": seen((0, 1, b"N2"), (1, 0, b"N3"))}
    check = evidence.every_record_was_consumed(PRODUCED, [], lines, 3)
    assert check.kept and check.detail == "3 flights, 1 of them more than once"


def test_a_record_that_nobody_saw_breaks_the_promise() -> None:
    assert not evidence.every_record_was_consumed(
        PRODUCED, [], {"ann": seen((0, 0, b"N1"), (0, 1, b"N2"))}, 3
    ).kept


def test_a_record_with_another_key_breaks_the_promise() -> None:
    lines = {"ann": seen((0, 0, b"N1"), (0, 1, b"XX"), (1, 0, b"N3"))}
    assert not evidence.every_record_was_consumed(PRODUCED, [], lines, 3).kept


def test_two_flights_acknowledged_at_one_place_break_the_promise() -> None:
    lines = {"ann": seen((0, 0, b"N1"), (0, 1, b"N2"), (1, 0, b"N3"))}
    assert not evidence.every_record_was_consumed(PRODUCED, [], lines, 4).kept


def test_a_flight_acknowledged_without_a_place_must_be_seen_at_a_place_that_is_nobodys() -> None:
    known, placeless = {(0, 0): b"N1", (0, 1): b"N2"}, [b"N1"]
    everywhere = {"ann": seen((0, 0, b"N1"), (0, 1, b"N2"), (1, 0, b"N1"))}
    assert evidence.every_record_was_consumed(known, placeless, everywhere, 3).kept
    elsewhere = {"ann": seen((0, 0, b"N1"), (0, 1, b"N2"), (1, 0, b"N2"))}
    assert not evidence.every_record_was_consumed(known, placeless, elsewhere, 3).kept


def test_a_gap_within_a_tenure_breaks_the_order() -> None:
    assert not evidence.order_holds_within_each_tenure({"ann": seen((0, 0, b"N1"), (0, 2, b"N2"))}).kept


def test_going_back_in_a_new_tenure_keeps_the_order() -> None:
    lines = seen((0, 4, b"N1"), (0, 5, b"N2")) + seen((0, 3, b"N0"), (0, 4, b"N1"), tenure=7)
    check = evidence.order_holds_within_each_tenure({"ann": lines})
    assert check.kept and check.detail == "2 tenures"


def test_a_commit_below_the_end_is_told() -> None:
    check = evidence.committed_to_the_end({0: 9}, {0: 10})
    assert not check.kept and check.detail == "0: 9 of 10"


def test_no_partition_at_all_is_no_success() -> None:
    assert not evidence.committed_to_the_end({}, {}).kept
    assert not evidence.all_in_sync({}, 3).kept


def test_a_replica_out_of_sync_is_told() -> None:
    assert evidence.all_in_sync({0: [2, 1]}, 3).detail == "0: [1, 2]"


def test_evidence_survives_the_file_and_a_torn_last_line_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / "ann"
    path.write_bytes(evidence.line(Seen(0, 1, 2, b"N 1")) + b"0 2 2 N")
    assert evidence.read(path) == [Seen(0, 1, 2, b"N 1")]


def test_logs_that_differ_in_one_byte_are_told(tmp_path: Path) -> None:
    for broker, content in (("broker-1", b"aaaa"), ("broker-2", b"aaab")):
        (tmp_path / broker / "flights-0").mkdir(parents=True)
        (tmp_path / broker / "flights-0" / "0.log").write_bytes(content)
    folders = {name: tmp_path / name for name in ("broker-1", "broker-2")}
    assert not evidence.logs_are_equal("flights", {0: folders}).kept
    (tmp_path / "broker-2" / "flights-0" / "0.log").write_bytes(b"aaaa")
    assert evidence.logs_are_equal("flights", {0: folders}).kept


def test_empty_logs_are_no_success(tmp_path: Path) -> None:
    assert not evidence.logs_are_equal("flights", {0: {"broker-1": tmp_path, "broker-2": tmp_path}}).kept
