"""Finds the Java that runs Spark, and makes it start faster with a class data archive (JEP 350).

A ``java`` script of ours removes an option of Spark's launcher: the option needs an incubating
module that a trimmed runtime lacks. A session without an archive writes one when it exits; a later
session first checks that it is complete, because a partial archive, left by a killed JVM, would
crash every JVM that uses it. A JVM ignores an archive of another Java or class path.
"""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from platformdirs import user_cache_path

from breakglass.services import class_data
from breakglass.services.class_data import fingerprint, is_whole
from breakglass.services.errors import PipelineError
from breakglass.services.rights import make_folders, open_new

NICENESS = "BREAKGLASS_NICENESS"
"""The variable with the niceness of Java and its children."""
SHIM = """\
#!/bin/sh
# What Spark and its workers write, and the sockets they listen on, are for their owner alone.
umask 077
# Spark asks for a module that a trimmed runtime does not have.
for option do
  shift
  [ "$option" = "--add-modules=jdk.incubator.vector" ] || set -- "$@" "$option"
done
[ "${{BREAKGLASS_NICENESS:-0}}" -gt 0 ] || exec "{java}" "$@"
set -- nice -n "$BREAKGLASS_NICENESS" "{java}" "$@"
command -v setsid >/dev/null || exec "$@"
# Linux weighs sessions against each other, and processes only within theirs.
weighed='{{ echo "$0" >/proc/self/autogroup; }} 2>/dev/null; exec "$@"'
exec setsid sh -c "$weighed" "$BREAKGLASS_NICENESS" "$@"
"""


def java_home(java: Path) -> Path:
    """The JAVA_HOME that makes Spark use *java*; made in the user's cache."""
    return shim(java, user_cache_path("breakglass") / "java")


def find_java() -> Path:
    """A ``java`` that runs Spark 4. Raises: PipelineError: there is none."""
    return class_data.find_java("Spark", "pipeline", PipelineError)


def shim(java: Path, home: Path) -> Path:
    """Write a ``java`` that runs *java* into a folder of *home*; return that folder."""
    home = home / hashlib.sha256(str(java).encode()).hexdigest()[:16]
    script = home / "bin" / "java"
    content = SHIM.format(java=java)
    if not script.exists() or script.read_text(encoding="utf-8") != content:
        make_folders(script.parent)
        partial = script.with_name(f"java.{os.getpid()}.partial")
        partial.write_text(content, encoding="utf-8")
        partial.chmod(0o700)
        partial.replace(script)
    return home


ABANDONED_SECONDS = 600.0
"""A partial archive this old will not be completed."""
UNUSED_SECONDS = 30 * 24 * 3600.0
"""An unused archive, of another Java or Spark, is removed after this time."""
SUFFIX, PARTIAL, CLASS_PATH = ".jsa", ".partial", ".classpath"
QUIET = ("-Xlog:disable", "-Xlog:all=error:stderr")
"""Without these options a JVM prints about archives to stdout, which belongs to the command."""


@dataclass(frozen=True, slots=True)
class ClassArchive:
    """The class data archive that the JVM of one session uses or writes."""

    options: tuple[str, ...] = ()
    written: Path | None = None
    """The file that the JVM writes when it exits; None if it uses an archive or cannot write
    one."""

    def note(self, class_path: str) -> None:
        """Record the class path of that JVM, which the proof of the archive needs."""
        if self.written is not None:
            with suppress(OSError), open(_noted(self.written), "x", opener=open_new) as file:
                file.write(class_path)


def class_archive(java: Path, depends: Sequence[str], folder: Path) -> ClassArchive:
    """The archive in *folder* for *java* and what else it *depends* on, or how to write it."""
    name = fingerprint(java, *depends)
    archive = folder / f"{name}{SUFFIX}"
    try:
        make_folders(folder)
        # Remove abandoned partial archives, and archives that have not been used for a month.
        for left in folder.iterdir():
            longest = UNUSED_SECONDS if left.suffix == SUFFIX else ABANDONED_SECONDS
            with suppress(FileNotFoundError):
                if left != archive and time.time() - left.stat().st_mtime > longest:
                    left.unlink()
        if archive.exists() or _installed_archive(java, archive):
            return ClassArchive(_using(archive))
    except OSError:
        # Without a cache Spark works, but starts slower.
        return ClassArchive()
    written = folder / f"{name}.{os.getpid()}.{time.monotonic_ns()}{PARTIAL}"
    return ClassArchive((*QUIET, f"-XX:ArchiveClassesAtExit={written}"), written)


def _installed_archive(java: Path, archive: Path) -> bool:
    """Install a complete archive that an earlier session wrote; whether there was one."""
    for partial in sorted(archive.parent.glob(f"{archive.stem}.*{PARTIAL}")):
        with suppress(FileNotFoundError):
            if is_whole(java, _using(partial), _noted(partial).read_text()):
                partial.replace(archive)
                _noted(partial).unlink()
                return True
    return False


def _using(archive: Path) -> tuple[str, ...]:
    return (*QUIET, f"-XX:SharedArchiveFile={archive}")


def _noted(partial: Path) -> Path:
    return partial.with_name(partial.name + CLASS_PATH)
