"""The step of a restore of topics, as journals name it."""

from __future__ import annotations

RECORDS = "restore records"
