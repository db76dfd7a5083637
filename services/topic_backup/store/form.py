"""In which form a backup lies: as the original wrote it, compressed, encrypted, or both.

The form stands in every file's name, so that nothing else has to be read to know it, and no
reader of the original takes such a file for its own.
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
    """A form."""

    compressed: bool = False
    encrypted: bool = False

    def __str__(self) -> str:
        words = ["compressed"] * self.compressed + ["encrypted"] * self.encrypted
        return " and ".join(words) or "plain"

    @property
    def plain(self) -> bool:
        """Whether it is that of the original."""
        return not (self.compressed or self.encrypted)


def form_of(names: Iterable[str]) -> StoredForm | None:
    """The form of the backup whose files have these *names*; None where they are none."""
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
    """Whether one of *names* is a manifest's, in any form: something was committed there."""
    return any(_MANIFEST.fullmatch(one) for one in names)


def in_form(blobs: Blobs, form: StoredForm, key: Key | None, folder: str) -> Blobs:
    """The plain content of *blobs*, which lie in *form* in the folder of that name.

    Raises:
        UsageError: they are encrypted, and there is no key.
    """
    if form.encrypted:
        if key is None:
            raise UsageError(
                f"{blobs.where()} is encrypted: name the file that holds its key with "
                "--encrypt-key."
            )
        blobs = Sealed(blobs, key, folder)
    return Compressed(blobs) if form.compressed else blobs
