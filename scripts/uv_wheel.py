"""Fetch the pinned uv from a package index with Python's standard library alone.

The wheel for this machine is found on the index's page (PEP 503), checked against the hashes of
requirements/uv.txt, and the one program in it is written to the user's cache.
"""

from __future__ import annotations

import base64
import hashlib
import html
import io
import os
import platform
import re
import ssl
import sys
import urllib.parse
import urllib.request
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from scripts.package_index import index_url, uv_settings

TIMEOUT = 60.0
"""Seconds without an answer from the index."""


class NoUv(Exception):
    """uv is not here and could not be fetched; says what to do."""


@dataclass(frozen=True)
class Pin:
    """The version to fetch, and the SHA-256 of each of its files."""

    version: str
    hashes: frozenset[str]


def read_pin(pins: Path) -> Pin:
    """Read the pinned version and its hashes from a requirements file."""
    text = pins.read_text(encoding="utf-8")
    version = re.search(r"^uv==(\S+)", text, re.MULTILINE)
    if version is None:
        raise NoUv(f"{pins.name} pins no uv; restore the file from git.")
    return Pin(version[1], frozenset(re.findall(r"--hash=sha256:([0-9a-f]{64})", text)))


def fetch_wheel(pin: Pin, target: Path, environ: Mapping[str, str]) -> None:
    """Write the pinned uv to *target*, executable. Raises NoUv."""
    page_address = f"{index_url(environ).rstrip('/')}/uv/"
    name, link = choose_wheel(download(page_address, environ).decode("utf-8"), pin.version)
    wheel = download(urllib.parse.urljoin(page_address, link), environ)
    if hashlib.sha256(wheel).hexdigest() not in pin.hashes:
        raise NoUv(f"{name} does not have the pinned hash; ask who runs your package index why.")
    with zipfile.ZipFile(io.BytesIO(wheel)) as archive:
        program = archive.read(f"uv-{pin.version}.data/scripts/uv")
    partial = target.with_suffix(f".{os.getpid()}")
    partial.write_bytes(program)
    partial.chmod(0o755)
    partial.replace(target)


def choose_wheel(page: str, version: str) -> tuple[str, str]:
    """Return file name and link of the wheel for this machine from an index *page*."""
    links = re.findall(r'<a\s[^>]*href="([^"]+)"[^>]*>\s*([^<\s]+)\s*</a>', page)
    for link, name in links:
        if name.startswith(f"uv-{version}-") and name.endswith(".whl") and runs_here(name):
            return name, html.unescape(link).partition("#")[0]
    raise NoUv(
        f"The package index has no uv {version} for {sys.platform} on {platform.machine()}; "
        "install uv yourself and put it on PATH."
    )


def runs_here(wheel: str) -> bool:
    """Whether the platform tag of *wheel* is this machine's."""
    tag = wheel.removesuffix(".whl").rpartition("-")[2]
    system = "macosx" if sys.platform == "darwin" else "manylinux"
    if sys.platform == "linux" and not platform.libc_ver()[0]:
        system = "musllinux"
    return tag.startswith(system) and tag.endswith(platform.machine())


def download(address: str, environ: Mapping[str, str]) -> bytes:
    """Return what *address* holds, by the proxy and certificates this machine is told of."""
    told = {**uv_settings(environ), **environ}
    host = urllib.parse.urlsplit(address).hostname or ""
    try:
        context = ssl.create_default_context(cafile=told.get("SSL_CERT_FILE"))
        opener = urllib.request.build_opener(
            urllib.request.ProxyHandler(proxies(environ)),
            urllib.request.HTTPSHandler(context=context),
        )
        with opener.open(request_for(address), timeout=TIMEOUT) as answer:
            return bytes(answer.read())
    except OSError as error:
        raise NoUv(
            f"uv could not be fetched from {host} ({error}); set HTTPS_PROXY or "
            "UV_DEFAULT_INDEX for your network, or install uv and put it on PATH."
        ) from error


def proxies(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the proxy of each scheme: the environment's, else pip's."""
    from_pip = uv_settings(environ).get("HTTPS_PROXY")
    return {"http": from_pip, "https": from_pip} if from_pip else urllib.request.getproxies()


def request_for(address: str) -> urllib.request.Request:
    """Return a request whose login, if the address names one, is sent to that host alone."""
    parts = urllib.parse.urlsplit(address)
    if parts.scheme not in ("https", "http"):
        raise NoUv("The package index is not an http address; install uv and put it on PATH.")
    place = parts.netloc.rpartition("@")[2]
    request = urllib.request.Request(urllib.parse.urlunsplit(parts._replace(netloc=place)))  # noqa: S310
    request.add_header("Accept", "text/html, */*")
    if parts.username:
        login = (
            f"{urllib.parse.unquote(parts.username)}:{urllib.parse.unquote(parts.password or '')}"
        )
        token = base64.b64encode(login.encode()).decode()
        request.add_unredirected_header("Authorization", f"Basic {token}")
    return request
