"""Where jars are fetched from, and the lock of the folder that keeps them."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

REPOSITORY_VARIABLE = "BREAKGLASS_MAVEN_REPOSITORY"
"""Environment variable: address of a mirror that is asked in place of Maven Central."""
CENTRAL = "https://repo.maven.apache.org/maven2"


def repository() -> str:
    """The address that is asked."""
    return os.environ.get(REPOSITORY_VARIABLE) or CENTRAL


@contextmanager
def cache_lock(folder: Path) -> Iterator[None]:
    """Keep other processes from making the same files in *folder* meanwhile."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
