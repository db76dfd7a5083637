"""The peer of the console: kaskade, in an environment of its own in the user's cache."""

from __future__ import annotations

import subprocess
import venv
from collections.abc import Mapping

from platformdirs import user_cache_path

from benchmarks._measure import Program

VERSION = "5.1.0"
NAME = f"kaskade {VERSION}"


def kaskade(address: str, environment: Mapping[str, str] | None) -> Program:
    """Its list of topics; installed if it is not there yet.

    Raises:
        subprocess.CalledProcessError: it cannot be installed.
    """
    folder = user_cache_path("breakglass") / f"kaskade-{VERSION}"
    program = folder / "bin" / "kaskade"
    if not program.exists():
        venv.create(folder, with_pip=True)
        python = folder / "bin" / "python"
        install = ("-m", "pip", "install", "--quiet", f"kaskade=={VERSION}")
        subprocess.run([python, *install], check=True)
    return Program(NAME, [program, "admin", "-b", address], environment)
