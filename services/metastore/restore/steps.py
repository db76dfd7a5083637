"""The step of a restore of a command topic, as journals name it."""

from __future__ import annotations

COMMAND_TOPIC = "restore command topic"
