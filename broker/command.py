"""This room starts one broker from its environment, and says why it could not."""

import asyncio
import contextlib
import gc
import logging
import os
import signal
import sys

import structlog

from broker.folder import DataFolder, FolderError, boot_id
from broker.link import SharedId
from broker.log.outcomes import StorageFailed
from broker.process import BrokerProcess
from broker.settings import BrokerSettings, from_environment, guard_of, reader, refuse_open_doors
from kafkaserver import open_files
from kafkaserver.addresses import CannotListenError
from kafkaserver.compiled import running
from kafkaserver.ending import end_without_threads
from kafkaserver.guard import Guard
from kafkaserver.version import own_version
from muster.kernel.environment import SettingError

BAD_SETTING, BAD_FOLDER, BAD_ADDRESS, SHARED_ID = 2, 3, 4, 5

SWITCH_INTERVAL_S = 0.0005
YOUNG_OBJECTS = 10_000


def main() -> int:
    """Run until SIGTERM or SIGINT; returns the exit code, and says on standard error why it is not 0."""
    try:
        settings, level = from_environment(), reader().text("MUSTER_LOG_LEVEL")
        # First: a certificate that ends is told of when it is read.
        _log_as_json(settings, level)
        guard = guard_of(reader())
        refuse_open_doors(settings, guard)
    except SettingError as error:
        print(f"broker: {error}", file=sys.stderr)
        return BAD_SETTING
    structlog.get_logger().info("broker runs", version=own_version(), how=str(running))
    for line in reader().unknown():
        structlog.get_logger().warning(line)
    open_files.allow_many_files()
    try:
        with DataFolder(settings.data, settings.broker_id, settings.cluster_id) as folder:
            folder.open(boot_id())
            with asyncio.Runner(loop_factory=new_loop) as runner:
                runner.run(_serve(settings, folder, guard))
                # What is clean is marked by now; the lock goes with the process, not before its threads.
                end_without_threads()
    except (FolderError, StorageFailed) as error:
        print(f"broker {settings.broker_id}: {error}", file=sys.stderr)
        return BAD_FOLDER
    except SharedId as error:
        print(f"broker {settings.broker_id}: {error}; give each process an id of its own", file=sys.stderr)
        return SHARED_ID
    except CannotListenError as error:
        print(f"broker {settings.broker_id}: {error}", file=sys.stderr)
        return BAD_ADDRESS
    return 0


def new_loop() -> asyncio.AbstractEventLoop:
    """uvloop's where it exists: a seventh less of the CPU of small requests."""
    if sys.platform == "win32":
        return asyncio.new_event_loop()
    import uvloop

    return uvloop.new_event_loop()


async def _serve(settings: BrokerSettings, folder: DataFolder, guard: Guard) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    process = BrokerProcess(settings, folder, guard)
    settle()
    await process.run(stop)


def settle() -> None:
    """Arrange memory and threads for the loop, when everything is imported.

    What was imported lives as long as the process: no collection of cycles needs to walk through it again,
    and the thousands of rows of one frame are not worth ten walks. Each system call of the loop gives the
    interpreter away: to have it back from a thread that compacts takes an interval, 5 ms by default.
    """
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    gc.collect()
    gc.freeze()
    gc.set_threshold(YOUNG_OBJECTS, 10, 20)


def _log_as_json(settings: BrokerSettings, level: str) -> None:
    """One JSON object a line on standard error, as every other process of the house writes."""
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            _stamp(f"broker-{settings.broker_id}"),
            structlog.processors.format_exc_info,
            structlog.processors.JSONRenderer(),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.getLevelNamesMapping()[level]),
        logger_factory=lambda *_: _Lines(sys.__stderr__.fileno() if sys.__stderr__ else -1),
    )


class _Lines:
    """A line that cannot be written is lost: a full disk, or a reader that is gone, ends no broker, and
    breaks nothing off that tells of what it does.
    """

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def msg(self, line: str) -> None:
        """Write it at once: what a stream kept of it would fail the end of the process, too."""
        left = f"{line}\n".encode()
        with contextlib.suppress(OSError):
            while left:
                # A signal, or a disk that is nearly full, may end it in the middle.
                left = left[os.write(self._descriptor, left) :]

    debug = info = warning = error = critical = exception = msg


def _stamp(process: str) -> structlog.typing.Processor:
    def stamp(_logger: object, _method: str, event: structlog.typing.EventDict) -> structlog.typing.EventDict:
        event.setdefault("process", process)
        return event

    return stamp
