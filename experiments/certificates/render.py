"""Draw the study from its tables.

python -m experiments --figures --studies certificates
"""

from pathlib import Path

from experiments.certificates import draw_audits, draw_bounds, draw_requests
from experiments.store import Store

_DRAW = {
    "certificates_audits": draw_audits.curves,
    "certificates_trade_offs": draw_audits.trade_offs,
    "certificates_epsilons": draw_audits.epsilons,
    "certificates_concentration": draw_bounds.concentration,
    "certificates_groups": draw_requests.groups,
    "certificates_sequences": draw_requests.sequences,
}
PICTURES = tuple(_DRAW)


def render(store: Store, folder: Path) -> None:
    for name, draw in _DRAW.items():
        draw(store, folder, name)
