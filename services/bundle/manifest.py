"""The manifest of a bundle: its version, what is in it, and what could not be read and why."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from breakglass.services.bundle.values import Unfit, decode, encode
from breakglass.services.errors import MalformedInput, UnsupportedSchema
from breakglass.services.model import Unknown

FORMAT = "breakglass-bundle"
VERSION = 1
"""Of the format; every change of a field makes a new version, and other versions are refused."""
MANIFEST = "manifest.json"
"""The name of the first entry."""


@dataclass(frozen=True, slots=True)
class BundleEntry:
    """One entry of a bundle."""

    name: str
    size: int
    """Bytes, not compressed."""
    sha256: str
    """Of these bytes, in hexadecimal."""
    read_at_ms: int
    """When its last figure was read, in milliseconds of the epoch."""


@dataclass(frozen=True, slots=True)
class UnreadPart:
    """Something that a bundle lacks."""

    what: str
    why: str

    def __str__(self) -> str:
        return f"{self.what}: {self.why}"


@dataclass(frozen=True, slots=True)
class BundleManifest:
    """The first entry of a bundle."""

    made_by: str
    """The release: ``breakglass 1.2``."""
    cluster_id: str | Unknown
    began_at_ms: int
    """When the capture began."""
    captured_at_ms: int
    """When it ended; the clock of a console on the bundle stands there."""
    entries: tuple[BundleEntry, ...]
    """In the order in which they follow."""
    unread: tuple[UnreadPart, ...]

    def to_json(self) -> dict[str, Any]:
        """The JSON form, with the name and the version of the format."""
        return {"format": FORMAT, "version": VERSION, **encode(self)}


def parse_manifest(data: bytes, source: str) -> BundleManifest:
    """The manifest in *data*, the first entry of the file that messages call *source*.

    Raises:
        MalformedInput: it is no manifest.
        UnsupportedSchema: another release wrote it.
    """
    document = _document(data, source)
    version = document.pop("version", None)
    if document.pop("format", None) != FORMAT or type(version) is not int:
        raise no_bundle(source, "its first entry is no manifest")
    if version != VERSION:
        raise UnsupportedSchema(
            f"{source} has bundle version {version} and this release reads {VERSION}: open it with "
            "the release that captured it."
        )
    try:
        return decode(BundleManifest, document)
    except Unfit as error:
        raise no_bundle(source, f"its manifest cannot be read, {error}") from error


def no_bundle(source: str, why: str) -> MalformedInput:
    """The error of a file that is no bundle, or a damaged one."""
    return MalformedInput(
        f"{source} cannot be opened as a bundle ({why}): take it again from where it was captured."
    )


def _document(data: bytes, source: str) -> dict[str, Any]:
    try:
        document = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise no_bundle(source, "its manifest is not JSON") from error
    if type(document) is not dict:
        raise no_bundle(source, "its manifest is no object")
    return document
