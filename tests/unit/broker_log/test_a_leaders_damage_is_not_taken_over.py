"""A follower stores what is good and refuses the first bad batch by name, so that it rests and asks again."""

from pathlib import Path

import pytest

from broker.log.outcomes import AppendRefused, LogSettings
from muster.kafkawire import batches
from muster.kernel.error_codes import ErrorCode
from tests.unit.broker_log.logs import append, opened, stored

LENGTH, MAGIC, RECORDS = 8, 16, 61


def _answer(folder: Path) -> bytearray:
    leader = opened(folder, LogSettings())
    for _ in range(3):
        append(leader, b"v" * 50)
    return bytearray(b"".join(path.read_bytes() for path in sorted(folder.glob("*.log"))))


@pytest.mark.parametrize("number", [0, 1, 2])
@pytest.mark.parametrize("at", [LENGTH, MAGIC, RECORDS])
def test_batches_before_the_bad_one_are_stored_and_the_rest_is_refused(
    tmp_path: Path, at: int, number: int
) -> None:
    data = _answer(tmp_path / "leader")
    data[[start for start, _ in batches.headers(bytes(data))][number] + at] ^= 0x10
    follower = opened(tmp_path / "follower", LogSettings())
    if at == LENGTH and number > 0:
        # As good as cut off: what comes next is asked for again, and refused then.
        assert follower.append_as_follower(memoryview(data), 0) == number
        data = data[[start for start, _ in batches.headers(_answer(tmp_path / "again"))][number] :]
    with pytest.raises(AppendRefused) as refused:
        follower.append_as_follower(memoryview(data), 0)
    assert refused.value.error_code is ErrorCode.CORRUPT_MESSAGE
    assert follower.end_offset == number == len(stored(follower))
