"""How a service was started, and the folders and times that follow from it."""

import json
import os
import re
from dataclasses import asdict, dataclass
from datetime import date, datetime, timedelta
from pathlib import Path
from urllib.parse import urlsplit

from pilu.exceptions import WrongArgument

_LOOPBACK = ("127.0.0.1", "::1", "localhost")
_TIME = re.compile(r"([01]\d|2[0-3]):([0-5]\d)")


@dataclass(frozen=True)
class Configuration:
    """Options of `pilu serve` and `pilu work`.

    Attributes
    ----------
    stores : path
        The folder whose folders are stores. The service keeps its own files in `.service` there.
    database : str, optional
        The address of a PostgreSQL database; by default a file in `.service`.
    nightly : str
        When waiting requests are carried out: local time, as 02:00.
    callback_hosts : tuple of str
        Hosts to which callbacks may be sent; none by default.
    answers_every : int
        Seconds. Requesters learn of an end at a multiple of it, at least one interval after the
        request was due, so that the time does not tell whether the person was in the model. 0: at
        once.
    keep_receipts : int
        Days after which receipts are deleted.
    max_body : int
        Bytes that officers and predictors may send in a call; others may send 64 kB.
    sign : path, optional
        The private key that signs receipts.
    address : str, optional
        How others reach the service, as https://forget.example.org; for links in callbacks.
    certificate, certificate_key : path, optional
        PEM files: the X.509 certificate and its key by which answers to OpenDSR are signed.
    """

    stores: Path
    database: str | None = None
    nightly: str = "02:00"
    callback_hosts: tuple[str, ...] = ()
    answers_every: int = 3600
    keep_receipts: int = 90
    max_body: int = 10_000_000
    sign: Path | None = None
    address: str | None = None
    certificate: Path | None = None
    certificate_key: Path | None = None
    processes: int = 1
    secure: bool = False  # people reach it over TLS

    def __post_init__(self) -> None:
        if _TIME.fullmatch(self.nightly) is None:
            raise WrongArgument("nightly", "a time such as 02:00", self.nightly)
        for name, least in (("answers_every", 0), ("keep_receipts", 1), ("max_body", 1_000)):
            if getattr(self, name) < least:
                raise WrongArgument(name, f"an integer >= {least}", getattr(self, name))
        if self.address is not None and urlsplit(self.address).scheme not in ("http", "https"):
            raise WrongArgument("address", "a URL with http or https", self.address)
        if (self.certificate is None) != (self.certificate_key is None):
            raise WrongArgument(
                "certificate", "given together with its key, or not at all", str(self.certificate)
            )

    @property
    def own(self) -> Path:
        """The folder of the service's own files."""
        return self.stores / ".service"

    @property
    def where(self) -> str | Path:
        """Where the database is."""
        return self.database or self.own / "service.sqlite"

    def next_night(self, now: float) -> float:
        """The next time at which waiting requests are carried out."""
        found = _TIME.fullmatch(self.nightly)
        assert found is not None
        local = datetime.fromtimestamp(now).astimezone()
        # Wall time: on the day of a change of clocks the night is an hour longer or shorter.
        for days in (0, 1, 2):
            day = local.date() + timedelta(days=days)
            start = datetime(day.year, day.month, day.day, int(found[1]), int(found[2]))
            if start.astimezone().timestamp() > now:
                return start.astimezone().timestamp()
        raise AssertionError("one of the next two nights is later than now")

    def run_at(self, now: float, due: date | None) -> float:
        """When a request is carried out: in the coming night, or now if that is after its day."""
        night = self.next_night(now)
        late = due is not None and datetime.fromtimestamp(night).date() > due
        return now if late else night

    def allows_callback(self, url: str) -> bool:
        """Whether callbacks may be sent to an address."""
        parts = urlsplit(url)
        secure = parts.scheme == "https" or parts.hostname in _LOOPBACK
        return secure and parts.hostname in self.callback_hosts and parts.username is None

    def to_environment(self) -> str:
        """Text from which `from_environment` makes an equal one, for processes of this one."""
        return json.dumps(asdict(self), default=str)

    @classmethod
    def from_environment(cls) -> "Configuration":
        """The configuration of the process that started this one."""
        given = json.loads(os.environ[ENVIRONMENT])
        for name in ("stores", "sign", "certificate", "certificate_key"):
            given[name] = None if given[name] is None else Path(given[name])
        return cls(**{**given, "callback_hosts": tuple(given["callback_hosts"])})


ENVIRONMENT = "PILU_SERVICE"


def is_loopback(host: str) -> bool:
    """Whether an address is reached from this machine only."""
    return host in _LOOPBACK
