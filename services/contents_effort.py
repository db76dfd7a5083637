"""How far the contents of replicas are read before they are proposed: `--verify-contents`."""

from __future__ import annotations

from enum import StrEnum


class Effort(StrEnum):
    """The values of ``--verify-contents``."""

    FULL = "full"
    """From log start to log end, however long that takes."""
    BUDGET = "budget"
    """The newest batches first, as far back as the allowance goes."""
    OFF = "off"
