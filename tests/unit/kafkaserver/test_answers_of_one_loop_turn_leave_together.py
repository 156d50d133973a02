"""Who has many connections is woken once for the answers of a turn; who speaks alone is answered at once."""

import socket

from kafkaserver.replies import Reply
from kafkaserver.sockets import Connection
from kafkaserver.turns import Turns
from muster.kafkawire.api_table import RequestHeader
from tests.unit.kafkaserver.served import answer, request, served, until

MANY = 40


def has_answer(client: socket.socket) -> bool:
    try:
        return bool(client.recv(1, socket.MSG_PEEK))
    except BlockingIOError:
        return False


class Clients:
    """Connections of one process, and how many of them had an answer when each request was heard."""

    def __init__(self) -> None:
        self.sockets: list[socket.socket] = []
        self.answered_before: list[int] = []

    def handle(self, header: RequestHeader, _frame: memoryview, reply: Reply) -> None:
        self.answered_before.append(sum(map(has_answer, self.sockets)))
        reply.send(answer(header.correlation_id))

    def connect(self, port: int) -> socket.socket:
        client = socket.create_connection(("127.0.0.1", port))
        client.setblocking(False)
        self.sockets.append(client)
        return client

    def all_answered(self) -> bool:
        return all(map(has_answer, self.sockets))

    def close(self) -> None:
        for client in self.sockets:
            client.close()


async def test_what_several_connections_are_answered_leaves_behind_the_last_request() -> None:
    clients = Clients()
    async with served(clients.handle) as (server, port):
        for _ in range(3):
            clients.connect(port)
        await until(lambda: server.connection_count == 3)
        for client in clients.sockets:
            client.send(request(7))
        await until(clients.all_answered)
        clients.close()
    assert clients.answered_before == [0, 0, 0]


async def test_no_answer_waits_for_more_than_a_few_dozen_requests() -> None:
    clients = Clients()
    async with served(clients.handle) as (server, port):
        server.turns = Turns(server.loop, Connection.take_turn, lambda _: "", 3600.0)
        for _ in range(MANY):
            clients.connect(port)
        await until(lambda: server.connection_count == MANY)
        for client in clients.sockets:
            client.send(request(7))
        await until(clients.all_answered)
        clients.close()
    assert max(clients.answered_before) >= 32


async def test_who_speaks_alone_is_answered_before_the_loop_goes_on() -> None:
    clients = Clients()
    async with served(clients.handle) as (server, port):
        server.turns = Turns(server.loop, Connection.take_turn, lambda _: "", 3600.0)
        client = clients.connect(port)
        await until(lambda: server.connection_count == 1)
        client.send(request(7))
        await until(clients.all_answered)
        client.recv(1024)
        (connection,) = server._connections
        client.send(request(8))
        connection.on_readable()
        assert has_answer(client)
        clients.close()
