"""This room is one connection of the SDK to one broker: Kafka requests out, their answers back, in order."""

import asyncio
import ssl
import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from muster.client.reaching import reach
from muster.client.securing import IN_THE_CLEAR, NotTrusted, Security
from muster.kafkawire import api_table
from muster.kafkawire.api_table import ApiKey
from muster.kafkawire.errors import KafkaWireError

MAX_ANSWER_BYTES = 64 * 1024 * 1024
"""A longer answer is not read: the length is a stranger's word until the bytes are there."""

SHORT_BYTES: Final = 16 * 1024
"""An answer that is no longer must be there whole in the time that its beginning has; of a longer one some
more must come each time, for the way to here may be narrow.
"""

MUTED_MAX_S: Final = 60.0
"""A quota that takes longer is not believed: Kafka's take 11 s at most, as its windows are by default."""

CONNECT_TIMEOUT_S = 5.0

_LENGTH = struct.Struct(">i")


class BrokerUnavailable(Exception):
    """The broker cannot be reached, hung up, or did not answer in time; another one may know more."""


class BrokerNotTrusted(BrokerUnavailable):
    """The broker's certificate is not good, or it refused the token, or did not know it: asking again is vain
    until somebody changes that.
    """


@dataclass(frozen=True, slots=True)
class Question:
    """A request that the SDK asks: key and version, and kio's class with its parts filled in."""

    key: ApiKey
    version: int
    body: Any


class BrokerConnection:
    """One connection; requests are answered one after the other, as Kafka promises.

    `ask` raises BrokerUnavailable and the connection is closed then: an answer that comes too late
    would be taken for the answer to the next request.
    """

    def __init__(
        self, address: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, client_id: str
    ) -> None:
        self.address = address
        self.closed = False
        self._reader = reader
        self._writer = writer
        self._client_id = client_id
        self._correlation_id = 0
        self._muted_until_s = 0.0
        """On the loop's clock: before that the broker reads nothing here, as it said (KIP-219)."""
        self._turn = asyncio.Lock()

    @classmethod
    async def open(
        cls, address: str, client_id: str, security: Security = IN_THE_CLEAR
    ) -> "BrokerConnection":
        """Connect to `address` ("host:port"), and prove who we are. Raises BrokerUnavailable."""
        host, _, port = address.rpartition(":")
        host = host.strip("[]")
        connection: BrokerConnection | None = None
        try:
            async with asyncio.timeout(CONNECT_TIMEOUT_S):
                context = security.context()
                reader, writer = await asyncio.open_connection(
                    sock=await reach(host, int(port)), ssl=context, server_hostname=host if context else None
                )
                connection = cls(address, reader, writer, client_id)
                await security.prove(connection._ask_first, host)
        except (ssl.SSLCertVerificationError, NotTrusted) as problem:
            raise BrokerNotTrusted(f"{address}: {problem}") from problem
        except (OSError, TimeoutError, ValueError, OverflowError, EOFError, KafkaWireError) as problem:
            # ValueError: a host that cannot be one; OverflowError: a port.
            raise BrokerUnavailable(f"{address}: {str(problem) or 'no connection in time'}") from problem
        else:
            opened, connection = connection, None
            return opened
        finally:
            if connection is not None:
                connection.close()

    async def _ask_first(self, key: ApiKey, version: int, body: Any) -> Any:
        """While nobody else may ask yet."""
        return await self._exchange(Question(key, version, body))

    async def ask(self, question: Question, timeout_s: float) -> Any:
        """The answer to `question`, as kio's class; raises BrokerUnavailable.

        `timeout_s` is for its beginning, and for whatever comes next of a long one, beside what the broker's
        quotas take.
        """
        async with self._turn:
            if self.closed:
                raise BrokerUnavailable(f"{self.address}: closed")
            answered, time = False, asyncio.get_running_loop().time
            muted_s = max(0.0, self._muted_until_s - time())
            try:
                async with asyncio.timeout(muted_s + timeout_s) as patience:
                    answer = await self._exchange(question, lambda: patience.reschedule(time() + timeout_s))
                answered = True
            except (OSError, TimeoutError, EOFError, KafkaWireError) as problem:
                raise BrokerUnavailable(f"{self.address}: {str(problem) or 'no answer in time'}") from problem
            finally:
                if not answered:
                    self.close()
            return answer

    async def _exchange(self, question: Question, goes_on: Callable[[], None] = lambda: None) -> Any:
        self._correlation_id = correlation_id = (self._correlation_id + 1) & 0x7FFFFFFF
        key, version = question.key, question.version
        self._writer.write(
            api_table.encode_request(key, version, correlation_id, self._client_id, question.body)
        )
        await self._writer.drain()
        (length,) = _LENGTH.unpack(await self._reader.readexactly(_LENGTH.size))
        if not _LENGTH.size <= length <= MAX_ANSWER_BYTES:
            raise OSError(f"an answer of {length} bytes")
        frame = await self._frame(length, goes_on)
        if api_table.correlation_id_of(frame) != correlation_id:
            raise OSError("the answer to another request")
        start = api_table.reply_body_start(key, version, frame)
        answer = api_table.read_body(api_table.response_class(key, version), frame, start)
        if throttled := getattr(answer, "throttle_time", None):
            muted_s = min(throttled.total_seconds(), MUTED_MAX_S)
            self._muted_until_s = asyncio.get_running_loop().time() + muted_s
        return answer

    async def _frame(self, size_bytes: int, goes_on: Callable[[], None]) -> bytes:
        """What so many bytes behind a length are; `goes_on` hears of each piece of a long one."""
        if size_bytes <= SHORT_BYTES:
            return await self._reader.readexactly(size_bytes)
        pieces: list[bytes] = []
        while size_bytes:
            piece = await self._reader.read(size_bytes)
            if not piece:
                raise EOFError("the broker hung up in the midst of an answer")
            pieces.append(piece)
            size_bytes -= len(piece)
            goes_on()
        return b"".join(pieces)

    def close(self) -> None:
        """Hang up; may be called twice."""
        self.closed = True
        self._writer.transport.abort()
