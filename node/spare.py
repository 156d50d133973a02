"""This room is the node's spare process: it does the work that no worker claimed, and ends with the node."""

import asyncio
import sys
from collections import OrderedDict

import structlog

RESTART_S = 1.0
REMEMBERED = 1_000
LONGEST_BACKLOG_BYTES = 64 * 1024

log = structlog.get_logger(__name__)


class Spare:
    """The child process and its pipe; started by `start`, started again when it has died."""

    def __init__(self) -> None:
        self._process: asyncio.subprocess.Process | None = None
        self._keeping: asyncio.Task[None] | None = None
        self._asked: OrderedDict[str, float] = OrderedDict()

    def start(self) -> None:
        """Begin to keep a child."""
        self._keeping = asyncio.create_task(self._keep())

    def publish(self, item_id: str) -> bool:
        """Ask the child to do an item; False if it was just asked, or cannot be asked now."""
        now = asyncio.get_running_loop().time()
        if now - self._asked.get(item_id, -RESTART_S) < RESTART_S:
            return False
        pipe = self._process.stdin if self._process is not None else None
        if (
            pipe is None
            or pipe.is_closing()
            or pipe.transport.get_write_buffer_size() > LONGEST_BACKLOG_BYTES
        ):
            return False
        self._asked[item_id] = now
        self._asked.move_to_end(item_id)
        while len(self._asked) > REMEMBERED:
            self._asked.popitem(last=False)
        pipe.write(f"{item_id}\n".encode())
        return True

    async def stop(self) -> None:
        """Close the pipe; a child that does not end within a second is killed."""
        if self._keeping is not None:
            self._keeping.cancel()
            await asyncio.gather(self._keeping, return_exceptions=True)
        process, self._process = self._process, None
        if process is None or process.returncode is not None:
            return
        if process.stdin is not None:
            process.stdin.close()
        try:
            await asyncio.wait_for(process.wait(), 1.0)
        except TimeoutError:
            process.kill()
            await process.wait()

    async def _keep(self) -> None:
        while True:
            try:
                self._process = await asyncio.create_subprocess_exec(
                    sys.executable, "-m", "node.spare_work", stdin=asyncio.subprocess.PIPE
                )
                code = await self._process.wait()
                log.warning("spare process ended", code=code)
            except OSError as error:
                log.error("spare process could not be started", error=str(error))
            await asyncio.sleep(RESTART_S)
