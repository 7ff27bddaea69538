"""A real service on loopback, with a store of sixty rows of thirty people."""

import threading
import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
import uvicorn

from desk.refit.tables import make_rows, write
from pilu.client import Client
from pilu.desk.desk import Desk
from pilu.service.asgi import make_app
from pilu.service.configuration import Configuration
from pilu.service.database import open_database
from pilu.service.tokens import add_token
from pilu.service.work import send, work

COLUMNS = {"target": "y", "subject": "person", "id": "row", "ignore": ["weight"]}


@dataclass
class Served:
    configuration: Configuration
    address: str
    clients: list = field(default_factory=list)

    def client(self, role="officer", *, per_second=1000.0, **options):
        database = open_database(self.configuration.where)
        with database.writing() as tx:
            _, token = add_token(tx, f"a test's {role}", role, per_second=per_second)
        database.close()
        self.clients.append(Client(self.address, token, **options))
        return self.clients[-1]

    def work(self):
        done = work(self.configuration)
        send(self.configuration)
        return done


@contextmanager
def serving(folder):
    stores = folder / "stores"
    stores.mkdir()
    with Desk.fit(stores / "customers", write(make_rows(60), folder / "people.csv"), **COLUMNS):
        pass
    configuration = Configuration(stores, answers_every=0, callback_hosts=("127.0.0.1",))
    app = make_app(configuration, work=False)
    server = uvicorn.Server(
        uvicorn.Config(app, host="127.0.0.1", port=0, log_config=None, ws="none", loop="asyncio")
    )
    thread = threading.Thread(target=server.run)
    thread.start()
    while not server.started and thread.is_alive():
        time.sleep(0.005)
    port = server.servers[0].sockets[0].getsockname()[1]
    made = Served(configuration, f"http://127.0.0.1:{port}")
    try:
        yield made
    finally:
        for client in made.clients:
            client.close()
        server.should_exit = True
        thread.join(timeout=20)
        assert not thread.is_alive()


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    """A service for all tests of a module; each of them asks about other people."""
    with serving(tmp_path_factory.mktemp("served")) as made:
        yield made


@pytest.fixture
def fresh(tmp_path):
    """A service for one test."""
    with serving(tmp_path) as made:
        yield made


@pytest.fixture(scope="module")
def officer(served):
    return served.client()


@pytest.fixture
def receiver():
    """A receiver of callbacks, which keeps what came: headers and bodies."""
    came = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            body = self.rfile.read(int(self.headers["Content-Length"]))
            came.append((self.headers, body))
            self.send_response(204)
            self.end_headers()

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    server.came, server.url = came, f"http://127.0.0.1:{server.server_port}/told"
    yield server
    server.shutdown()
    thread.join()
    server.server_close()
