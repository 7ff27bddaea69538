"""Write the OpenAPI document: `python -m pilu.service.openapi docs/openapi.json`."""

import json
import sys
from pathlib import Path

from pilu.service.asgi import openapi


def document() -> str:
    """The document as text, the same each time."""
    return json.dumps(openapi(), indent=1, sort_keys=True) + "\n"


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(document(), encoding="utf-8")
