"""The steps of checkpoints, as journals name them."""

from __future__ import annotations

TAKE = "take checkpoint"
DELETE = "delete checkpoint"
