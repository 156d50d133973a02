"""This room opens websockets to names that have several addresses, of which some may be dead."""

from websockets.asyncio.client import ClientConnection, connect

from muster.client.reaching import reach


class Websocket(connect):
    """A websocket as `connect` of websockets opens it, to the address that takes it first.

    Releases of that library before 17 call this by another name, and go on as they do by themselves.
    """

    async def open_tcp_connection(self) -> ClientConnection:
        """Connect, each time that it is led elsewhere as well."""
        kept = self.create_connection_kwargs
        taken = await reach(self.ws_uri.host, self.ws_uri.port)
        self.create_connection_kwargs = {**kept, "sock": taken}
        try:
            return await super().open_tcp_connection()
        finally:
            # Led elsewhere on a socket that it was given it would not follow.
            self.create_connection_kwargs = kept
