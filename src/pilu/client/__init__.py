"""Call a service of `pilu serve` from Python, and check what it sends (``pilu[client]``).

>>> from pilu.client import Client
>>> Client("http://forget.example.org", "pilu_...")
Traceback (most recent call last):
...
pilu.exceptions.WrongInput: address must be https://..., got http://forget.example.org: the token \
would cross the network in the clear. Pass insecure=True if the network is safe.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from pilu._extras import need

if TYPE_CHECKING:
    from pilu.client.calling import NoAnswer, ServiceError
    from pilu.client.client import Client, NotEnded, SomeRefused
    from pilu.client.receiving import (
        CallbackRefused,
        SeenIds,
        check_callback,
        check_opendsr_callback,
    )

__all__ = [
    "CallbackRefused",
    "Client",
    "NoAnswer",
    "NotEnded",
    "SeenIds",
    "ServiceError",
    "SomeRefused",
    "check_callback",
    "check_opendsr_callback",
]

_HOME = {
    "CallbackRefused": "receiving",
    "Client": "client",
    "NoAnswer": "calling",
    "NotEnded": "client",
    "SeenIds": "receiving",
    "ServiceError": "calling",
    "SomeRefused": "client",
    "check_callback": "receiving",
    "check_opendsr_callback": "receiving",
}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'pilu.client' has no attribute {name!r}")
    if _HOME[name] != "receiving":  # which needs neither of them
        for package in ("httpx", "pydantic"):
            need(package, for_=f"pilu.client.{name}", extra="client")
    return getattr(import_module(f"pilu.client.{_HOME[name]}"), name)
