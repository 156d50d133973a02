"""Its first hello names the logs that lack records or cannot be used; what fails later is said at once."""

import asyncio
import json
from pathlib import Path

import pytest

from broker.folder import CLEAN_SHUTDOWN_FILE, IDENTITY_FILE
from broker.link import SharedId
from broker.log.checkpoints import LEADER_EPOCHS
from broker.log.opening import DAMAGED
from muster.kernel.error_codes import ErrorCode
from muster.messages.link.from_broker import UnusableLogs
from muster.messages.link.to_broker import HelloRefused
from tests.unit.broker_log.logs import append
from tests.unit.broker_process.controller_side import LAST, ControllerSide, linked_broker


async def _write_and_stop(folder: Path) -> Path:
    """Two records in the last partition; returns its folder."""
    controller = ControllerSide()
    async with asyncio.timeout(30), linked_broker(folder, controller) as process:
        link, _ = await controller.bind()
        await controller.apply(link, version=5)
        hosted = process._plane.hosted(*LAST)
        assert hosted is not None
        assert hosted.replica.min_insync_replicas == 2, "as the controller said"
        for value in (b"a", b"b"):
            append(hosted.log, value)
        return hosted.log.folder


async def test_damage_is_in_the_first_hello_and_in_no_later_one(tmp_path: Path) -> None:
    folder = await _write_and_stop(tmp_path)
    (path,) = folder.glob("*.log")
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    (tmp_path / ".clean-shutdown").unlink()
    (folder.parent / "recovery-point-offset-checkpoint").unlink()
    for expected in ((LAST,), ()):
        controller = ControllerSide()
        async with asyncio.timeout(30), linked_broker(tmp_path, controller) as process:
            link, hello = await controller.bind()
            assert (hello.damaged_logs, hello.lost_tail) == (expected, False)
            await controller.apply(link, version=6)
            hosted = process._plane.hosted(*LAST)
            assert hosted is not None and hosted.log.end_offset == 1
            assert not (folder / DAMAGED).exists()


async def test_logs_that_cannot_be_used_are_named_at_the_hello_and_when_they_fail(tmp_path: Path) -> None:
    folder = await _write_and_stop(tmp_path)
    (folder / "another-name.log").write_bytes(b"")
    controller = ControllerSide()
    async with asyncio.timeout(30), linked_broker(tmp_path, controller) as process:
        link, hello = await controller.bind()
        assert hello.unusable_logs == (LAST,)
        await controller.apply(link, version=6)
        other = process._plane.hosted(LAST[0], 0)
        assert other is not None
        other.log.fail("the disk is gone")
        said = await controller.hear_unusable(link)
        assert said == UnusableLogs(failed=((LAST[0], 0),)), "what was said before is not said again"


async def test_a_log_that_opens_only_after_the_crash_was_said_is_named_then(tmp_path: Path) -> None:
    folder = await _write_and_stop(tmp_path)
    epochs = (folder / LEADER_EPOCHS).read_bytes()
    (folder / "another-name.log").write_bytes(b"")
    _crash_the_machine(tmp_path)
    told = []
    for is_openable in (False, False, True, True):
        if is_openable:
            (folder / "another-name.log").unlink(missing_ok=True)
        controller = ControllerSide()
        async with asyncio.timeout(30), linked_broker(tmp_path, controller):
            link, hello = await controller.bind()
            told.append((hello.lost_tail, hello.unusable_logs, hello.damaged_logs))
            await controller.apply(link, version=6)
    assert told == [
        (True, (LAST,), ()),
        (False, (LAST,), ()),
        (False, (), (LAST,)),
        (False, (), ()),
    ]
    assert (folder / LEADER_EPOCHS).read_bytes() == epochs


def _crash_the_machine(folder: Path) -> None:
    """Nothing that was written is gone, but nobody can know."""
    identity = json.loads((folder / IDENTITY_FILE).read_bytes())
    (folder / IDENTITY_FILE).write_text(json.dumps(identity | {"boot_id": "the boot before"}))
    (folder / CLEAN_SHUTDOWN_FILE).unlink()


async def test_what_fails_between_a_later_hello_and_its_answer_is_said_behind_the_snapshot(
    tmp_path: Path,
) -> None:
    controller = ControllerSide()
    async with asyncio.timeout(30), linked_broker(tmp_path, controller) as process:
        link, _ = await controller.bind()
        await controller.apply(link, version=5)
        await link.close()
        hosted = process._plane.hosted(*LAST)
        assert hosted is not None
        link, hello = await controller.bind(lambda: hosted.log.fail("the disk is gone"))
        assert hello.unusable_logs == ()
        await controller.apply(link, version=6)
        said = await controller.hear_unusable(link)
        assert said == UnusableLogs(failed=(LAST,))


async def test_who_shares_its_id_with_a_living_process_ends_with_a_clear_error(tmp_path: Path) -> None:
    controller = ControllerSide()
    patience = {
        "MUSTER_INITIAL_BROKER_REGISTRATION_TIMEOUT_MS": "300",
        "MUSTER_BROKER_RELINK_INTERVAL_MS": "10",
    }
    async with asyncio.timeout(30):
        with pytest.raises(SharedId, match="another process is broker 1"):
            async with linked_broker(tmp_path, controller, **patience):
                for _ in range(1_000):
                    link = await controller.links.get()
                    await link.recv()
                    refused = HelloRefused(
                        error=ErrorCode.DUPLICATE_BROKER_REGISTRATION, text="another process is broker 1"
                    )
                    await controller.say(link, refused)
                    await link.wait_closed()
                    if controller.links.empty() and await _is_quiet(controller):
                        break


async def _is_quiet(controller: ControllerSide) -> bool:
    """True if no further link is tried for longer than the broker rests."""
    try:
        async with asyncio.timeout(1):
            controller.links.put_nowait(await controller.links.get())
    except TimeoutError:
        return True
    return False
