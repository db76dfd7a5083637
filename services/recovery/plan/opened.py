"""Plans opened from files and saved to them: nothing is written over that was not read."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from breakglass.services.errors import EvidenceChanged
from breakglass.services.recovery.plan.file import parse_plan, render_plan, write_plan
from breakglass.services.recovery.plan.json_text import read_text

if TYPE_CHECKING:
    from breakglass.services.recovery.plan.document import Plan


@dataclass(frozen=True, slots=True)
class OpenedFile:
    """A file as it was when it was read or written last."""

    path: Path
    fingerprint: str
    """Of its text."""


def open_plan(path: Path) -> tuple[Plan, OpenedFile]:
    """The plan in *path*, and the file as it is.

    Raises: MalformedInput, UnsupportedSchema, StorageError.
    """
    text = read_text(path)
    return parse_plan(text, str(path)), OpenedFile(path, _fingerprint(text))


def save_plan(plan: Plan, path: Path, opened: OpenedFile | None) -> OpenedFile:
    """Write *plan* to a new file at *path*, or over *opened* if that is it and still the same.

    Raises:
        UsageError: another file is at *path*; it is kept.
        EvidenceChanged: somebody else wrote the file meanwhile; it is kept.
        StorageError: it cannot be read or written.
    """
    text = render_plan(plan)
    if opened is None or not path.exists() or not path.samefile(opened.path):
        write_plan(plan, path)
    else:
        if _fingerprint(read_text(path)) != opened.fingerprint:
            raise EvidenceChanged(
                f"{path} was changed by somebody else in between, so nothing was written: save "
                "under another name and compare."
            )
        # Of a link, what it leads to is replaced and not the link.
        write_plan(plan, path.resolve(), replace=True)
    return OpenedFile(path, _fingerprint(text))


def _fingerprint(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
