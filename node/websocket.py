"""This room is uvicorn's websocket with a short way for what members say and hear all day: small whole texts.

Of an offset commit's cost on a node, more than half was between the socket and the door: a generator for
each frame, a queue and a woken task for each message, `epoll_ctl` twice because reading was paused and
resumed. A whole, masked text frame is taken out of what was read here and given to the application at once;
everything else (handshake, fragments, control frames, whatever breaks RFC 6455) goes its usual way.
"""

import asyncio
import struct
from collections.abc import Callable
from typing import Any

from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.frames import Frame
from websockets.http11 import Request
from websockets.protocol import OPEN

from coordinator.sockets import TEXT_EXTENSION
from muster.messages.limits import FRAME_LIMIT_BYTES
from node.large_texts import FRAMES_AT_ONCE, LARGE_BYTES, turns
from node.said_texts import said_texts

try:
    from websockets.speedups import apply_mask
except ImportError:  # a platform without the compiled part
    from websockets.utils import apply_mask

TEXT = 0x81
"""First byte of a text frame that is a whole message and has no extension's bits (RFC 6455 section 5.2)."""

_HEADER_OF_LENGTH = {126: 8, 127: 14}
"""Bytes of a masked frame before its payload, by the length's short form; 6 for all others."""

FITS_ALL_BYTES = FRAME_LIMIT_BYTES
"""Of a frame that is no longer nobody is asked whether it may be so long."""

OTHER_FRAMES_A_SECOND = 2_000
"""Of what is no whole text, pings above all, the rest waits: each costs as much as a text."""

Hear = Callable[[str], float]
Fits = Callable[[int], bool]


class _Mailbox:
    """In place of uvicorn's queue, for one reader: of thousands of websockets hardly anything but their end
    comes this way, and an `asyncio.Queue` is three kilobytes.
    """

    __slots__ = ("_messages", "_reader")

    def __init__(self) -> None:
        self._messages: list[Any] = []
        self._reader: asyncio.Future[None] | None = None

    def put_nowait(self, message: Any) -> None:
        self._messages.append(message)
        if self._reader is not None and not self._reader.done():
            self._reader.set_result(None)

    def empty(self) -> bool:
        return not self._messages

    async def get(self) -> Any:
        while not self._messages:
            self._reader = asyncio.get_running_loop().create_future()
            await self._reader
        return self._messages.pop(0)


class TextWebSocket(WebSocketsSansIOProtocol):
    """One websocket; in the scope's extensions it offers `hear_by` and `say_now` beside receive and send."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self.queue = _Mailbox()  # type: ignore[assignment]
        self._hear: Hear | None = None
        self._fits: Fits | None = None
        self._by_frame = False
        self._rest = bytearray()
        self._resting = False
        self._skipped_bytes = 0
        """So much of a frame that is too long is still to come, and read by nobody."""
        self._awaited_bytes = 0
        """The length of the long frame that is not whole yet and may come: that is asked once."""
        self._others = 0
        self._others_since = 0.0
        self._waits_for_the_peer = False
        self._rests_for_the_application = False
        self._cut_off: asyncio.TimerHandle | None = None
        self._pause: asyncio.TimerHandle | None = None
        self._turns = turns(self.loop)
        self.whose = ""
        self._is_called = self._was_called = False
        self._said = said_texts(self.loop)

    # --- for the application --------------------------------------------------------------------------------

    def hear_by(self, hear: Hear, fits: Fits, whose: str) -> None:
        """Give each text to `hear` as soon as its turn has come, not to `receive`; call it before accepting.

        All of one `whose` share the turns of one. `hear` answers for how many seconds nothing more shall be
        read, usually 0. `fits` is asked whether a message of so many bytes, more than FITS_ALL_BYTES, may
        come, before any of it is kept; if not it has hung up.
        """
        self._hear, self._fits, self.whose = hear, fits, whose

    def say_now(self, payload: bytes) -> bool:
        """Send a text (UTF-8). False, and nothing is sent, if it would have to wait or is too late."""
        if self.close_sent or not self._by_frame or not self.writable.is_set() or self.conn.state is not OPEN:
            return False
        if self.transport.is_closing():
            # Writing would raise, in the midst of a turn that tells thousands of others.
            return False
        size = len(payload)
        if size < 126:
            header = struct.pack(">BB", TEXT, size)
        elif size < 65_536:
            header = struct.pack(">BBH", TEXT, 126, size)
        else:
            header = struct.pack(">BBQ", TEXT, 127, size)
        self._said.say(self.transport, header + payload)
        return True

    def rest(self) -> Callable[[], None]:
        """Read nothing more, until what is returned is called."""
        self._rests_for_the_application = True
        self._rest_from_reading()

        def read_on() -> None:
            self._rests_for_the_application = False
            # Who answers is in the midst of something.
            self.loop.call_soon(self._go_on)

        return read_on

    def cut_off_within(self, seconds: float) -> None:
        """Free the socket by then, whatever still lies in its buffer; nothing if that is done."""
        if not self.disconnected:
            self._cut_off = self.loop.call_later(seconds, self.transport.abort)

    # --- for uvicorn ----------------------------------------------------------------------------------------

    def connection_lost(self, exc: Exception | None) -> None:
        """As uvicorn; no timer keeps alive what nobody needs any more."""
        super().connection_lost(exc)
        for timer in (self._cut_off, self._pause):
            if timer is not None:
                timer.cancel()

    def resume_writing(self) -> None:
        """As uvicorn; what the peer says is read again."""
        super().resume_writing()
        if self._waits_for_the_peer:
            self._waits_for_the_peer = False
            self._go_on()

    def handle_cont(self, event: Frame) -> None:
        """As uvicorn, of a message that may be so long; of one piece, however small its fragments are."""
        pieces: list[Any] = self.frames
        if not pieces:
            return  # The message was refused: what is left of it is none.
        size = len(pieces[0]) + len(event.data)
        if size > FITS_ALL_BYTES and self._fits is not None and not self._fits(size):
            pieces.clear()
            return
        if event.fin:
            super().handle_cont(event)
            return
        if not isinstance(pieces[0], bytearray):
            pieces[0] = bytearray(pieces[0])
        pieces[0] += event.data

    def shutdown(self) -> None:
        """As uvicorn, after what was said."""
        self._said.flush()
        super().shutdown()

    def handle_connect(self, event: Request) -> None:
        """Add the extension to the scope."""
        super().handle_connect(event)
        if not self.close_sent:
            self.scope["extensions"][TEXT_EXTENSION] = self  # type: ignore[assignment]

    async def send(self, message: Any) -> None:
        """As uvicorn; from the acceptance on, frames are found here."""
        self._said.flush()
        await super().send(message)
        if message["type"] == "websocket.accept":
            self._by_frame = self.conn.state is OPEN
            if self._rest:
                # Somebody did not wait for the answer; whoever accepts is to begin first.
                if not self._resting:
                    self._rest_from_reading()
                self.loop.call_soon(self._go_on)
            # Read by nobody any more, and four kilobytes.
            del self.request, self.response
        elif message["type"] == "websocket.http.response.body" and self.close_sent:
            # A refusal completes a handshake as well; uvicorn would log each as an application's mistake.
            self.handshake_complete = True

    def data_received(self, data: bytes) -> None:
        """Take whole texts out of what came; the parser gets the other frames."""
        if not self._by_frame:
            if self.handshake_initiated and not self.handshake_complete:
                self._rest += data
                if len(self._rest) > FITS_ALL_BYTES and not self._resting:
                    self._rest_from_reading()
                return
            super().data_received(data)
            return
        if self._skipped_bytes:
            skipped = min(self._skipped_bytes, len(data))
            self._skipped_bytes -= skipped
            data = data[skipped:]
        if self._rest or self._resting:
            self._rest += data
            if not self._resting:
                self._take_frames(self._rest)
            else:
                # uvicorn reads on when the application has taken an event.
                self._rest_from_reading()
        else:
            self._take_frames(data)

    def send_receive_event_to_app(self) -> None:
        """A message that the parser put together: a text goes to whoever hears."""
        if self.curr_msg_data_type == "text":
            payload = b"".join(self.frames)
            if self._hear is not None:
                self.frames = []
                self._heard(payload)
                return
            if self._text_of(payload) is None:
                return
        super().send_receive_event_to_app()

    def take_turn(self) -> None:
        """For whoever gives turns to all websockets: hear one portion of what was received."""
        self._is_called = True
        try:
            self._go_on()
        finally:
            self._is_called = self._was_called = False

    # --- inside ---------------------------------------------------------------------------------------------

    def _has_turn(self) -> bool:
        """Whether another portion may be heard now; else `take_turn` is called."""
        if self._was_called:
            self._turns.wait(self)
            return False
        self._was_called = self._is_called
        return self._is_called or self._turns.has(self)

    def _take_frames(self, data: "bytes | bytearray") -> None:
        """Go through the frames of `data`; what is left of it is `_rest` afterwards."""
        # A broker's link says little, and waits for nobody: it has a turn as long as it says no more.
        position, end, in_a_row = 0, len(data), 0 if self._hear is None else FRAMES_AT_ONCE
        limit = self.config.ws_max_size
        while end - position >= 6 and not self._resting:
            size = data[position + 1] - 0x80
            start = position + _HEADER_OF_LENGTH.get(size, 6)
            if start > end:
                break
            if size >= 126:
                size = int.from_bytes(data[position + 2 : start - 4], "big")
            if not 0 <= size <= limit or self.conn.state is not OPEN:
                # The parser knows what to say to an unmasked or boundless frame, and to all that follows.
                self._by_frame = False
                self._parse(data[position:])
                position = end
                break
            stop = start + size
            if size > FITS_ALL_BYTES and size != self._awaited_bytes and self._fits is not None:
                if not self._fits(size):
                    self._skipped_bytes = max(0, stop - end)
                    position = min(stop, end)
                    continue
                self._awaited_bytes = size
            if stop > end:
                break
            in_a_row += 1
            if size >= LARGE_BYTES or in_a_row > FRAMES_AT_ONCE:
                if not self._has_turn():
                    self._rest_from_reading()
                    break
                in_a_row = 1
            if data[position] == TEXT and self._hear is not None and self.conn.current_size is None:
                self._heard(apply_mask(bytes(data[start:stop]), bytes(data[start - 4 : start])))
            else:
                self._parse(data[position:stop])
            position, self._awaited_bytes = stop, 0
        if data is self._rest:
            del self._rest[:position]
        elif position < end:
            self._rest += data[position:]

    def _parse(self, frames: "bytes | bytearray") -> None:
        self._said.flush()
        super().data_received(bytes(frames))
        self._others += 1
        if self._resting or self.transport.is_closing():
            return
        if not self.writable.is_set():
            # Each ping is answered: who does not take that is not read either.
            self._waits_for_the_peer = True
            self._rest_from_reading()
        elif self._others >= OTHER_FRAMES_A_SECOND:
            pause_s = max(0.0, self._others_since + 1 - self.loop.time())
            self._others_since, self._others = self.loop.time() + pause_s, 0
            if pause_s:
                self._rest_for(pause_s)

    def _heard(self, payload: bytes) -> None:
        if self.close_sent or self._hear is None or (text := self._text_of(payload)) is None:
            return
        pause_s = self._hear(text)
        if pause_s > 0 and not self._resting:
            self._rest_for(pause_s)

    def _rest_for(self, pause_s: float) -> None:
        self._rest_from_reading()
        self._pause = self.loop.call_later(pause_s, self._go_on)

    def _rest_from_reading(self) -> None:
        self._resting = True
        if not self.transport.is_closing():
            self.transport.pause_reading()

    def _text_of(self, payload: bytes) -> str | None:
        """None, and the peer is told why, if it is no text: uvicorn would tell it nothing, and log that."""
        try:
            return payload.decode()
        except UnicodeDecodeError:
            if not self.close_sent:
                self._said.flush()
                self.conn.fail(1007, "the text is not UTF-8")
                self.handle_parser_exception()
            self.frames = []
            return None

    def _go_on(self) -> None:
        if self._rests_for_the_application:
            return
        self._resting = False
        if self.transport.is_closing():
            return
        self._take_frames(self._rest)
        if not self._resting and not self.read_paused:
            self.transport.resume_reading()
