"""Run the application with uvicorn: limits for slow clients, TLS, several processes."""

import logging
import os
import resource
import shutil
from pathlib import Path

from pilu._extras import need
from pilu.exceptions import WrongInput
from pilu.service.configuration import ENVIRONMENT, Configuration, is_loopback

_IDLE_SECONDS = 30  # until a connection that asks nothing is closed
_CONNECTIONS = 1_000
_FILES = 8_192  # descriptors of a process


def serve(
    configuration: Configuration,
    host: str,
    port: int,
    *,
    tls_certificate: Path | None = None,
    tls_key: Path | None = None,
    behind_proxy: bool = False,
) -> None:
    """Serve until the process is told to stop."""
    check_address(host, tls=tls_certificate is not None, behind_proxy=behind_proxy)
    uvicorn = need("uvicorn", for_="pilu serve", extra="serve")
    os.environ[ENVIRONMENT] = configuration.to_environment()
    if configuration.processes > 1:
        _share_measures(configuration)
    uvicorn.run(
        "pilu.service.asgi:from_environment",
        factory=True,
        host=host,
        port=port,
        workers=configuration.processes,
        http=need("pilu.service.protocol", for_="pilu serve", extra="serve").Guarded,
        log_config=None,
        access_log=False,  # the service has its own, without ids of requests
        server_header=False,
        proxy_headers=behind_proxy,
        timeout_keep_alive=_IDLE_SECONDS,
        timeout_graceful_shutdown=30,
        limit_concurrency=_connections(),
        ssl_certfile=None if tls_certificate is None else str(tls_certificate),
        ssl_keyfile=None if tls_key is None else str(tls_key),
    )


def _connections() -> int:
    """How many connections there may be: workers and the database need descriptors, too."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = hard if hard != resource.RLIM_INFINITY else _FILES
    if soft != resource.RLIM_INFINITY and soft < min(wanted, _FILES):
        soft = min(wanted, _FILES)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    return _CONNECTIONS if soft == resource.RLIM_INFINITY else min(_CONNECTIONS, soft // 2)


def check_installed() -> None:
    """Refuse to start without the packages of the extra, and name it."""
    for module in ("fastapi", "uvicorn", "httptools", "prometheus_client", "jinja2", "pyarrow"):
        need(module, for_="pilu serve", extra="serve")


def check_address(host: str, *, tls: bool, behind_proxy: bool) -> None:
    """Refuse to send tokens over a network in the clear."""
    if not (is_loopback(host) or tls or behind_proxy):
        raise WrongInput(
            f"listen must be a loopback address, got {host}: tokens would cross the network in the "
            "clear. Pass --tls-certificate and --tls-key, or --behind-proxy if a proxy ends TLS."
        )


def log_to_stderr() -> None:
    """Log calls and errors as lines on stderr, for journald or a container."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s %(message)s")
    for noisy in ("uvicorn.access", "httpx", "httpcore"):
        logging.getLogger(noisy).setLevel(logging.WARNING)


def _share_measures(configuration: Configuration) -> None:
    """A folder in which the processes add up their measures."""
    folder = configuration.own / "measures"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True, mode=0o700)
    os.environ["PROMETHEUS_MULTIPROC_DIR"] = str(folder)
