"""Pictures of the page: the score over time, and what the released model tells about people.

A worker draws them after a change, because they take seconds and matplotlib. The curve of exposures
shows shares of all people, rounded, and is replaced when somebody is forgotten.
"""

import json
import logging
from typing import Any

import numpy as np

from pilu.desk.desk import Desk
from pilu.exceptions import PiluError
from pilu.report.exposure_picture import draw_shares
from pilu.report.history import Scores
from pilu.report.score_picture import draw_scores
from pilu.service.database import Database

_SHARES = np.linspace(0.05, 1.0, 20)
_MOST = 50_000  # rows: beyond, exposures of everybody take minutes
_log = logging.getLogger("pilu.service")


def draw_store(database: Database, name: str, desk: Desk) -> None:
    """Draw the pictures of a store, unless it has not changed since they were drawn."""
    certified = desk.log().certified
    head = "first" if certified is None else str(certified.certificate_sha256)
    with database.reading() as tx:
        found = tx.one("SELECT head FROM pictures WHERE store = ?", name)
    if found is not None and found["head"] == head:
        return
    body: dict[str, Any] = {"scores": None, "exposure": None}
    try:
        scores = Scores.of([entry.record for entry in desk.log().entries])
        if scores is not None:
            picture = draw_scores(scores, None)
            body["scores"] = {"svg": picture.svg, "label": picture.label}
        body["exposure"] = _draw_exposure(desk)
    except (PiluError, ValueError, OSError, ImportError):  # the requests were carried out
        _log.exception("the pictures of store %s could not be drawn", name)
    with database.writing() as tx:
        tx.run(
            "INSERT INTO pictures (store, head, body) VALUES (?, ?, ?) ON CONFLICT (store)"
            " DO UPDATE SET head = excluded.head, body = excluded.body",
            name, head, json.dumps(body),
        )  # fmt: skip


def _draw_exposure(desk: Desk) -> dict[str, str] | None:
    exposures = desk.exposures(most=_MOST)
    if exposures is None:
        return None
    epsilon, delta = exposures
    picture = draw_shares(_SHARES, np.quantile(epsilon, _SHARES, method="higher"), delta)
    return {"svg": picture.svg, "label": picture.label}


def pictures_of(database: Database, name: str) -> dict[str, Any]:
    """The pictures of a store as they were drawn last."""
    with database.reading() as tx:
        found = tx.one("SELECT body FROM pictures WHERE store = ?", name)
    return {"scores": None, "exposure": None} if found is None else dict(json.loads(found["body"]))
