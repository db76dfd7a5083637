"""Finds uv, or fetches the pinned one, and says to it what only pip was configured to know.

`find_uv` takes the uv on PATH, the one fetched before, or fetches one into the user's cache: by
pip, which knows proxies, mirrors and passwords, or without pip by the standard library.
uv does not read pip's configuration, but a machine behind a proxy or a mirror usually has only
that. Precedence: uv's environment variables, pip's (``PIP_*``), pip's configuration files. What
none of them says is left to uv, whose own configuration files then apply.
"""

from __future__ import annotations

import configparser
import hashlib
import html
import io
import os
import platform
import re
import shutil
import ssl
import subprocess
import sys
import tempfile
import urllib.parse
import urllib.request
import zipfile
from collections.abc import Mapping
from pathlib import Path

PINS = Path(__file__).resolve().parent.parent / "requirements" / "uv.txt"
OLDEST = (0, 5)
"""The first uv that reads our settings (UV_DEFAULT_INDEX, UV_PYTHON_DOWNLOADS)."""
PUBLIC_INDEX = "https://pypi.org/simple"
SYSTEM_CERTIFICATES = Path("/etc/ssl/certs/ca-certificates.crt")

UV_NAMES = {
    "index-url": ("UV_DEFAULT_INDEX", "UV_INDEX_URL"),
    "extra-index-url": ("UV_INDEX", "UV_EXTRA_INDEX_URL"),
    "find-links": ("UV_FIND_LINKS",),
    "no-index": ("UV_NO_INDEX",),
    "trusted-host": ("UV_INSECURE_HOST",),
    "cert": ("SSL_CERT_FILE",),
    "proxy": ("HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"),
}
"""pip's name of a setting, and uv's names of the same; the first is the one to set."""


class NoUv(Exception):
    """uv is not here and could not be fetched; says what to do."""


def find_uv(environ: Mapping[str, str]) -> Path:
    """Return a uv that runs; fetches the pinned one when there is none. Raises NoUv."""
    on_path = shutil.which("uv", path=environ.get("PATH"))
    if on_path and new_enough(on_path):
        return Path(on_path)
    text = PINS.read_text(encoding="utf-8")
    version = re.search(r"^uv==(\S+)", text, re.MULTILINE)
    if version is None:
        raise NoUv(f"{PINS.name} pins no uv; restore the file from git.")
    cached = cache_folder(environ) / f"uv-{version[1]}" / "uv"
    if not cached.exists():
        print(f"Fetching uv {version[1]} into {cached.parent}", file=sys.stderr)
        cached.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=cached.parent) as folder:
            fetched = Path(folder, "bin", "uv")
            command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps"]
            command += ["--disable-pip-version-check", "--no-input", "--require-hashes"]
            command += ["--target", folder, "--requirement", str(PINS)]
            done = subprocess.run(command, capture_output=True, env=dict(environ))
            if done.returncode != 0 or not fetched.exists():
                fetched = Path(folder, "uv")
                hashes = re.findall(r"--hash=sha256:([0-9a-f]{64})", text)
                fetched.write_bytes(fetch_without_pip(version[1], hashes, environ))
                fetched.chmod(0o755)
            fetched.replace(cached)
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


def fetch_without_pip(version: str, hashes: list[str], environ: Mapping[str, str]) -> bytes:
    """Return the program in the wheel of uv for this machine, checked by *hashes*. Raises NoUv."""
    settings = {**uv_settings(environ), **environ}
    index = settings.get("UV_DEFAULT_INDEX") or settings.get("UV_INDEX_URL") or PUBLIC_INDEX
    page = f"{index.rstrip('/')}/uv/"
    system = "macosx" if sys.platform == "darwin" else "manylinux"
    if sys.platform == "linux" and not platform.libc_ver()[0]:
        system = "musllinux"
    wheel_here = (
        rf'href="([^"]+)"[^>]*>\s*uv-{re.escape(version)}-[^<]*{system}[^<]*'
        rf"{platform.machine()}\.whl"
    )
    try:
        links = re.findall(wheel_here, download(page, settings).decode())
        wheel = download(urllib.parse.urljoin(page, html.unescape(links[0])), settings)
    except (OSError, ValueError, IndexError) as error:
        raise NoUv(
            f"uv {version} could not be fetched ({type(error).__name__}): set HTTPS_PROXY or "
            "UV_DEFAULT_INDEX for your network, or install pip or uv."
        ) from error
    if hashlib.sha256(wheel).hexdigest() not in hashes:
        raise NoUv("The wheel of uv does not have the pinned hash; ask who runs your index why.")
    with zipfile.ZipFile(io.BytesIO(wheel)) as archive:
        return archive.read(f"uv-{version}.data/scripts/uv")


def download(address: str, settings: Mapping[str, str]) -> bytes:
    """Return what *address* holds, by the proxy and the certificates of *settings*."""
    if not address.startswith(("https:", "http:")):
        raise ValueError("no http address")
    proxy = settings.get("HTTPS_PROXY")
    handlers = [
        urllib.request.ProxyHandler({"http": proxy, "https": proxy} if proxy else None),
        urllib.request.HTTPSHandler(
            context=ssl.create_default_context(cafile=settings.get("SSL_CERT_FILE"))
        ),
    ]
    with urllib.request.build_opener(*handlers).open(address, timeout=60) as answer:
        return bytes(answer.read())


def pip_settings(environ: Mapping[str, str]) -> dict[str, str]:
    """Return pip's settings of indexes: ``{"index-url": ...}``, lists joined by spaces."""
    home = Path(environ.get("HOME") or Path.home())
    own = Path(environ.get("XDG_CONFIG_HOME") or home / ".config")
    named = environ.get("PIP_CONFIG_FILE")
    # In the order in which later files win.
    files: list[str | Path] = ["/etc/xdg/pip/pip.conf", "/etc/pip.conf", home / ".pip" / "pip.conf"]
    files += [own / "pip" / "pip.conf", *([named] if named else [])]
    settings: dict[str, str] = {}
    for file in [] if named == os.devnull else files:
        parser = configparser.RawConfigParser()
        parser.read(file, encoding="utf-8")
        for section in ("global", "install"):
            if parser.has_section(section):
                settings.update(parser.items(section))
    for name in UV_NAMES:
        if value := environ.get("PIP_" + name.upper().replace("-", "_")):
            settings[name] = value
    return {name: " ".join(settings[name].split()) for name in UV_NAMES if settings.get(name)}


def uv_settings(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the environment variables that give uv the settings that only pip had."""
    found = {
        UV_NAMES[name][0]: value
        for name, value in pip_settings(environ).items()
        if not any(environ.get(known) for known in UV_NAMES[name])
    }
    if "UV_FIND_LINKS" in found:
        found["UV_FIND_LINKS"] = found["UV_FIND_LINKS"].replace(" ", ",")
    if "UV_INDEX" in found:
        # As pip does: the best version of all indexes. Every file is checked by its hash.
        found["UV_INDEX_STRATEGY"] = "unsafe-best-match"
    if SYSTEM_CERTIFICATES.exists():
        # Where a proxy opens TLS, its certificate authority is in the system's store only. The
        # names are the present and the former one of uv's switch from its built-in certificates.
        switches = ("UV_SYSTEM_CERTS", "UV_NATIVE_TLS")
        found |= {name: "true" for name in switches if name not in environ}
    return found
