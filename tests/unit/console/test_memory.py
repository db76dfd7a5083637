"""A session's memory."""

from __future__ import annotations

import platform
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
PROBE = "from breakglass.console.memory import give_memory_back; print(give_memory_back())"


@pytest.mark.skipif(
    platform.libc_ver()[0] != "glibc", reason="other C libraries have no such settings"
)
def test_what_is_free_is_given_back() -> None:
    told = subprocess.run(
        [sys.executable, "-c", PROBE], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert told.stdout.strip() == "True"
