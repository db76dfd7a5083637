"""How operators write durations, sizes and rates: ``30d``, ``1GiB``, ``20MB/s``.

Commands, screens and settings share these readers, so that an amount is written one way everywhere.
"""

from __future__ import annotations

import re

_NUMBER = r"([0-9]{1,15}(?:\.[0-9]{1,3})?)"
_DURATION = re.compile(_NUMBER + "(ms|s|m|h|d)?", re.ASCII)
_SIZE = re.compile(_NUMBER + "([kKMGT]i?)?B?", re.ASCII)
_RATE = re.compile(_NUMBER + "(?:([kKMGT]i?)?B/s)?", re.ASCII)
_MILLISECONDS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_BYTES = {
    "": 1,
    "k": 10**3,
    "M": 10**6,
    "G": 10**9,
    "T": 10**12,
    "ki": 2**10,
    "Mi": 2**20,
    "Gi": 2**30,
    "Ti": 2**40,
}
UNITS = "kB, MB, GB and TB are powers of 1,000 (K, KB: as kB), KiB, MiB, GiB and TiB of 1,024"
UNLIMITED = "unlimited"


def duration_ms(text: str, *, bare: str = "") -> int:
    """The milliseconds of a duration such as ``30d``, ``12h``, ``90m``, ``45s`` or ``500ms``.

    *bare* is the unit of a number without a unit; empty where a unit must be written.

    Raises:
        ValueError: *text* is not a duration.
    """
    match = _DURATION.fullmatch(text)
    unit = match[2] or bare if match else ""
    if match is None or not unit:
        raise ValueError(f"{text!r} is not a duration: write it as 30d, 12h, 90m or 45s")
    return round(float(match[1]) * _MILLISECONDS[unit])


def size_bytes(text: str) -> int:
    """The bytes of a size such as ``10GB``, ``1GiB``, ``64K`` or ``500000``.

    Raises:
        ValueError: *text* is not a size.
    """
    match = _SIZE.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r} is not a size: write it as 10GB, 512MiB or 4096; {UNITS}")
    return round(float(match[1]) * _bytes(match[2]))


def _bytes(unit: str | None) -> int:
    return _BYTES[(unit or "").replace("K", "k")]


def rate_bytes(text: str) -> float:
    """The bytes a second of a rate such as ``20MB/s``; 0.0 for ``unlimited``.

    Raises:
        ValueError: *text* is not a rate.
    """
    if text == UNLIMITED:
        return 0.0
    match = _RATE.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r} is not a rate: write it as 20MB/s, 500kB/s or unlimited")
    return float(match[1]) * _bytes(match[2])
