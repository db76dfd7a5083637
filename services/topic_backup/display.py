"""Records as JSON objects, for people and scripts."""

from __future__ import annotations

import base64
from enum import StrEnum
from typing import Any

from breakglass.services.topic_backup.record import Record


class BytesAs(StrEnum):
    """How bytes are shown in JSON, which has none."""

    UTF8 = "utf8"
    """Text; bytes that are no UTF-8 become U+FFFD."""
    HEX = "hex"
    BASE64 = "base64"

    def show(self, content: bytes) -> str:
        if self is BytesAs.HEX:
            return content.hex()
        if self is BytesAs.BASE64:
            return base64.b64encode(content).decode()
        return content.decode(errors="replace")


def as_json(record: Record, form: BytesAs) -> dict[str, Any]:
    """One record; null stays null, headers are pairs in their order.

    ``{"offset", "timestamp_type": "none"|"create"|"log_append"|"create_null", "timestamp": ms,
    "key", "value", "headers": [[key, value], ...]}``
    """
    return {
        "offset": record.offset,
        "timestamp_type": record.timestamp_type.name.lower(),
        "timestamp": record.timestamp,
        "key": _shown(record.key, form),
        "value": _shown(record.value, form),
        "headers": [[form.show(key), _shown(value, form)] for key, value in record.headers],
    }


def _shown(content: bytes | None, form: BytesAs) -> str | None:
    return None if content is None else form.show(content)
