"""Detects how a backup is stored: as Kafka Backup writes it, compressed, encrypted, or both.

Every file's name shows the form, so no file must be read to detect it, and Kafka Backup's readers
ignore files of another form.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from breakglass.services.errors import UsageError
from breakglass.services.topic_backup.layout import MANIFEST, segment_of
from breakglass.services.topic_backup.store.blobs import Blobs
from breakglass.services.topic_backup.store.compressed import Compressed
from breakglass.services.topic_backup.store.key import Key
from breakglass.services.topic_backup.store.sealed import Sealed

_MANIFEST = re.compile(
    rf"{re.escape(MANIFEST.removesuffix('.json'))}(?:_[0-9]{{10,19}})?\.json(\.zst)?(\.aes)?",
    re.ASCII,
)
_IN_RUN = re.compile(r"run-[^/]*/[^/]*_(?:records|index)(\.zst)?(\.aes)?", re.ASCII)


@dataclass(frozen=True, slots=True)
class StoredForm:
    """How a backup is stored."""

    compressed: bool = False
    encrypted: bool = False

    def __str__(self) -> str:
        words = ["compressed"] * self.compressed + ["encrypted"] * self.encrypted
        return " and ".join(words) or "plain"

    @property
    def plain(self) -> bool:
        """Whether the form is Kafka Backup's own."""
        return not (self.compressed or self.encrypted)


def form_of(names: Iterable[str]) -> StoredForm | None:
    """The form of the backup with the files *names*; None if they belong to no backup."""
    found = None
    for name in names:
        if match := _MANIFEST.fullmatch(name):
            return StoredForm(bool(match[1]), bool(match[2]))
        if found is None and (match := _IN_RUN.fullmatch(name)):
            found = StoredForm(bool(match[1]), bool(match[2]))
        if found is None and segment_of(name) is not None:
            found = StoredForm()
    return found


def has_manifest(names: Iterable[str]) -> bool:
    """Whether *names* include a manifest in any form, so that something was committed."""
    return any(_MANIFEST.fullmatch(name) for name in names)


def in_form(blobs: Blobs, form: StoredForm, key: Key | None, folder: str) -> Blobs:
    """The plain content of *blobs*, which are stored in *form* in the folder of that name.

    Raises:
        UsageError: they are encrypted, and there is no key.
    """
    if form.encrypted:
        if key is None:
            raise UsageError(
                f"{blobs.where()} is encrypted: name the file that holds its key with --key."
            )
        blobs = Sealed(blobs, key, folder)
    return Compressed(blobs) if form.compressed else blobs
