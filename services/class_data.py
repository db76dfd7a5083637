"""Class data archives of a JVM (JEP 350): the name of an archive, and whether it is whole."""

from __future__ import annotations

import hashlib
import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

from breakglass.services.connection.secret import without_secrets

PROOF_SECONDS = 90.0


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
