"""A class data archive (JEP 350) of Spark's JVM, with which a session starts sooner.

The JVM of a session that finds none writes one when it ends. A later session takes it up once it
has proved to be whole: a JVM that is killed while it writes leaves a part of one, and a part ends
every JVM that uses it. An archive holds for one Java and one class path; where those are others,
the JVM leaves it aside by itself.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from services.class_data import fingerprint, is_whole
from services.rights import make_folders, open_new

ABANDONED_SECONDS = 600.0
"""A part of an archive that nobody has written to for so long stays a part."""
UNUSED_SECONDS = 30 * 24 * 3600.0
"""After so long an archive of another Java, or another Spark, is made again if need be."""
SUFFIX, PARTIAL, CLASS_PATH = ".jsa", ".partial", ".classpath"
QUIET = ("-Xlog:disable", "-Xlog:all=error:stderr")
"""What a JVM has to say of archives would go to stdout, which is ours."""


@dataclass(frozen=True, slots=True)
class ClassArchive:
    """What the JVM of one session does about archives."""

    options: tuple[str, ...] = ()
    """Of that JVM."""
    written: Path | None = None
    """What it leaves when it ends; None where it uses an archive, or cannot make one."""

    def note(self, class_path: str) -> None:
        """Write down the class path of that JVM, without which what it leaves cannot be proved."""
        if self.written is not None:
            with suppress(OSError), open(_noted(self.written), "x", opener=open_new) as file:
                file.write(class_path)


def class_archive(java: Path, depends: Sequence[str], folder: Path) -> ClassArchive:
    """The archive in *folder* for *java* and what else it *depends* on, or how to leave one."""
    name = fingerprint(java, *depends)
    archive = folder / f"{name}{SUFFIX}"
    try:
        make_folders(folder)
        _sweep(folder, archive)
        if archive.exists() or _taken_up(java, archive):
            return ClassArchive(_using(archive))
    except OSError:
        # Without a cache Spark starts slower, and works.
        return ClassArchive()
    written = folder / f"{name}.{os.getpid()}.{time.monotonic_ns()}{PARTIAL}"
    return ClassArchive((*QUIET, f"-XX:ArchiveClassesAtExit={written}"), written)


def _taken_up(java: Path, archive: Path) -> bool:
    """Whether a session has left an archive that is whole; then it is in its place."""
    for partial in sorted(archive.parent.glob(f"{archive.stem}.*{PARTIAL}")):
        with suppress(FileNotFoundError):
            if is_whole(java, _using(partial), _noted(partial).read_text()):
                partial.replace(archive)
                _noted(partial).unlink()
                return True
    return False


def _sweep(folder: Path, used: Path) -> None:
    """Remove parts that stay parts, and archives of what was there a month ago."""
    for left in folder.iterdir():
        longest = UNUSED_SECONDS if left.suffix == SUFFIX else ABANDONED_SECONDS
        with suppress(FileNotFoundError):
            if left != used and time.time() - left.stat().st_mtime > longest:
                left.unlink()


def _using(archive: Path) -> tuple[str, ...]:
    return (*QUIET, f"-XX:SharedArchiveFile={archive}")


def _noted(partial: Path) -> Path:
    return partial.with_name(partial.name + CLASS_PATH)
