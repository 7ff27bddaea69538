"""A folder with a store of thirty people, the application, and callers of every role."""

import time
from pathlib import Path
from types import SimpleNamespace

import httpx
import pytest

from desk.refit.conftest import COLUMNS
from desk.refit.tables import make_rows, write
from pilu.desk.desk import Desk
from pilu.service import tokens
from pilu.service.asgi import make_app
from pilu.service.configuration import Configuration
from pilu.service.database import open_database
from service.passes import a_pass


@pytest.fixture(scope="session")
def fitted(tmp_path_factory):
    """A store of sixty rows of thirty people, to be copied."""
    folder = tmp_path_factory.mktemp("fitted")
    table = write(make_rows(60), folder / "people.csv")
    with Desk.fit(folder / "store", table, **COLUMNS):
        pass
    return folder


@pytest.fixture
def folder(fitted, tmp_path):
    """A folder of stores with one, `people`."""
    stores = tmp_path / "stores"
    copy_store(fitted / "store", stores / "people")
    return stores


def copy_store(source: Path, target: Path) -> None:
    import shutil

    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copytree(source, target)


@pytest.fixture
def configuration(folder):
    # The night begins at midnight, so a request that is due today cannot wait for it.
    return Configuration(folder, answers_every=0, nightly="00:00")


@pytest.fixture
def serving(configuration):
    """Everything a test of the API needs; `run` carries out what is due."""
    app = make_app(configuration, work=False)
    database = open_database(configuration.where)
    callers = {}
    with database.writing() as tx:
        for role in tokens.ROLES:
            callers[role] = tokens.add_token(tx, role, role, per_second=1e6)[1]
    yield SimpleNamespace(
        app=app,
        configuration=configuration,
        database=database,
        tokens=callers,
        service=app.app.state.service,
        run=lambda: a_pass(configuration),
        desk=lambda name="people": Desk.open(configuration.stores / name),
    )
    database.close()
    app.app.state.service.close()


@pytest.fixture
def call(serving):
    """Call the API: `call("officer", "GET", path)`; returns the response."""
    import asyncio

    def calling(role, method, path, **more):
        async def run():
            transport = httpx.ASGITransport(serving.app, raise_app_exceptions=False)
            async with httpx.AsyncClient(
                transport=transport, base_url="http://service.test"
            ) as client:
                headers = dict(more.pop("headers", {}))
                if role is not None:
                    token = serving.tokens.get(role, role)
                    headers["Authorization"] = f"Bearer {token}"
                return await client.request(method, path, headers=headers, **more)

        return asyncio.run(run())

    return calling


def soon(check, seconds=20.0):
    """Wait until something is true."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        found = check()
        if found:
            return found
        time.sleep(0.05)
    raise AssertionError("it did not come true")
