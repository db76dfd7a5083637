"""Collects the entries of a bundle, compressed in memory, and writes them with their manifest."""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable, Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

from breakglass import __version__
from breakglass.services.bundle.archive import MOST_LINE_BYTES, PIECE, write_archive
from breakglass.services.bundle.manifest import BundleEntry, BundleManifest, UnreadPart
from breakglass.services.bundle.values import encode
from breakglass.services.clock import now_ms
from breakglass.services.model import Denied, Unknown

FAST = 1
"""zlib's level in memory."""


class BundleMaker:
    """The bundle of one capture, which began when this was made."""

    def __init__(self) -> None:
        self._began_at_ms = now_ms()
        self._entries: list[tuple[BundleEntry, list[bytes]]] = []
        self._unread: list[UnreadPart] = []
        self.missing_acls: set[str] = set()
        """The rights that this user lacks to read the rest: ``READ on topic orders``."""
        self.cluster_id: str | Unknown = Unknown("the cluster could not be read")

    @property
    def unread(self) -> tuple[UnreadPart, ...]:
        """What the bundle lacks, and why."""
        return tuple(self._unread)

    def lacks(self, what: str, why: str) -> None:
        """Note that the bundle lacks *what*."""
        self._unread.append(UnreadPart(what, why))

    def lacks_value(self, what: str, value: Unknown) -> None:
        """Note why *what* is unknown, and the right that would show it."""
        self.lacks(what, value.reason)
        if isinstance(value, Denied):
            self.missing_acls.add(value.needs)

    def document(self, name: str, value: Any, read_at_ms: int | None = None) -> None:
        """Add an entry that is one value."""
        self.lines(name, [value], read_at_ms)

    def lines(self, name: str, values: Iterable[Any], read_at_ms: int | None = None) -> None:
        """Add an entry with a line for each of *values*, read now unless *read_at_ms* says when."""

        def lines() -> Iterator[bytes]:
            for value in values:
                line = json.dumps(encode(value), separators=(",", ":")).encode()
                if len(line) > MOST_LINE_BYTES:
                    self.lacks(f"a line of {name}", f"{len(line):,} bytes are too many")
                else:
                    yield line + b"\n"

        self.raw(name, lines(), read_at_ms)

    def raw(self, name: str, data: Iterable[bytes], read_at_ms: int | None = None) -> None:
        """Add an entry with these bytes, which end with a line break."""
        packing, digest = zlib.compressobj(FAST), sha256()
        packed: list[bytes] = []
        size = 0
        for piece in data:
            digest.update(piece)
            size += len(piece)
            packed.append(packing.compress(piece))
        packed.append(packing.flush())
        at = now_ms() if read_at_ms is None else read_at_ms
        self._entries.append((BundleEntry(name, size, digest.hexdigest(), at), packed))

    def write(self, path: Path) -> BundleManifest:
        """Write the bundle to the new file *path*, for its owner alone; returns the manifest.

        Raises:
            FileExistsError: there is such a file; it is left as it is.
            StorageError: it cannot be written.
        """
        manifest = BundleManifest(
            f"breakglass {__version__}",
            self.cluster_id,
            self._began_at_ms,
            now_ms(),
            tuple([entry for entry, _ in self._entries]),
            self.unread,
        )
        text = json.dumps(manifest.to_json(), indent=1).encode() + b"\n"
        write_archive(path, text, ((entry, _unpacked(packed)) for entry, packed in self._entries))
        return manifest


def _unpacked(packed: Iterable[bytes]) -> Iterator[bytes]:
    unpacking = zlib.decompressobj()
    for piece in packed:
        left = piece
        while left:
            yield unpacking.decompress(left, PIECE)
            left = unpacking.unconsumed_tail
    yield unpacking.flush()
