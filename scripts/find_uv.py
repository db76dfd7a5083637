"""Find uv, or fetch the pinned one without pip: `find_uv` returns a path that runs.

In this order: the uv on PATH, the one fetched before, pip where there is a pip, and at last the
wheel itself (`scripts.uv_wheel`). What is fetched lands in the user's cache, for all checkouts.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from scripts.uv_wheel import fetch_wheel, read_pin

PINS = Path(__file__).resolve().parent.parent / "requirements" / "uv.txt"
OLDEST = (0, 5)
"""The first uv that reads the settings we hand it (UV_DEFAULT_INDEX, UV_PYTHON_DOWNLOADS)."""


def find_uv(environ: Mapping[str, str]) -> Path:
    """Return a uv that runs; fetches the pinned one when there is none. Raises NoUv."""
    on_path = shutil.which("uv", path=environ.get("PATH"))
    if on_path and new_enough(on_path):
        return Path(on_path)
    pin = read_pin(PINS)
    cached = cache_folder(environ) / f"uv-{pin.version}" / "uv"
    if not cached.exists():
        print(f"Fetching uv {pin.version} into {cached.parent}", file=sys.stderr)
        cached.parent.mkdir(parents=True, exist_ok=True)
        if not fetch_with_pip(cached, environ):
            fetch_wheel(pin, cached, environ)
    return cached


def cache_folder(environ: Mapping[str, str]) -> Path:
    """Return the folder of everything Breakglass fetches for this user."""
    home = environ.get("XDG_CACHE_HOME") or Path(environ.get("HOME") or Path.home()) / ".cache"
    return Path(home) / "breakglass"


def new_enough(uv: str) -> bool:
    """Whether *uv* runs (a version manager's shim may not) and knows our settings."""
    try:
        answer = subprocess.run([uv, "--version"], capture_output=True, text=True, timeout=30)
    except (OSError, subprocess.TimeoutExpired):
        return False
    version = re.search(r"(\d+)\.(\d+)", answer.stdout)
    return version is not None and (int(version[1]), int(version[2])) >= OLDEST


def fetch_with_pip(target: Path, environ: Mapping[str, str]) -> bool:
    """Fetch by pip, which knows proxies, mirrors and passwords; False where it cannot."""
    with tempfile.TemporaryDirectory(dir=target.parent) as folder:
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps"]
        command += ["--disable-pip-version-check", "--no-input", "--require-hashes"]
        command += ["--target", folder, "--requirement", str(PINS)]
        done = subprocess.run(command, capture_output=True, env=dict(environ))
        fetched = Path(folder) / "bin" / "uv"
        if done.returncode != 0 or not fetched.exists():
            return False
        fetched.replace(target)
    return True
