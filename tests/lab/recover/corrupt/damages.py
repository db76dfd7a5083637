"""Damage to one batch of a segment: a flipped payload, and each field of its header."""

import struct
from collections.abc import Callable, Mapping
from itertools import pairwise
from pathlib import Path

from breakglass.services.errors import LabError

Damage = Callable[[bytes], bytes]


def flipped(at: int) -> Damage:
    """Turn all bits over of the byte at *at*; from the batch's end where it is negative."""
    return lambda batch: bytes(
        byte ^ 0xFF if place == at % len(batch) else byte for place, byte in enumerate(batch)
    )


def put(at: int, content: bytes) -> Damage:
    """Overwrite a batch from that byte on."""
    return lambda batch: batch[:at] + content + batch[at + len(content) :]


HEADER_FIELDS: Mapping[str, Damage] = {
    "base-offset": put(7, bytes([41])),
    "base-offset-far": put(0, struct.pack(">q", 10**12)),
    "base-offset-behind": put(0, struct.pack(">q", 3)),
    "length": put(11, b"\x01"),
    "length-small": put(8, struct.pack(">i", 10)),
    "length-huge": put(8, struct.pack(">i", 2**30)),
    "leader-epoch": put(12, struct.pack(">i", 77)),
    "magic-old": put(16, b"\x01"),
    "magic-none": put(16, b"\x09"),
    "crc": flipped(17),
    "attributes": flipped(22),
    "last-offset-delta": put(23, struct.pack(">i", 2**30)),
    "count": flipped(60),
}
"""Damage to each field that stands before the records."""


def damage_batch(folder: Path, offset: int, damage: Damage) -> None:
    """Damage the batch that begins at *offset*, in a folder of one partition.

    Raises:
        LabError: no batch begins there.
    """
    for segment in sorted(folder.glob("*.log")):
        data = segment.read_bytes()
        # Where each batch of a segment begins and ends.
        places = [0]
        while places[-1] + 12 <= len(data):
            (length,) = struct.unpack_from(">i", data, places[-1] + 8)
            if length <= 0:
                break
            places.append(places[-1] + 12 + length)
        for start, end in list(pairwise(places)):
            if struct.unpack_from(">q", data, start)[0] == offset:
                with segment.open("r+b") as file:
                    file.seek(start)
                    file.write(damage(data[start:end]))
                return
    raise LabError(f"no batch of {folder} begins at {offset}: choose another offset")
