"""Where packages come from on this machine: what pip and uv are told here, in uv's own words.

uv does not read pip's configuration, but a machine behind a proxy or a mirror usually has only
that. Precedence: uv's environment variables, pip's (``PIP_*``), pip's configuration files. What
none of them says is left to uv, whose own configuration files then apply.
"""

from __future__ import annotations

import configparser
import os
from collections.abc import Mapping
from pathlib import Path

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

SYSTEM_STORE_SWITCHES = ("UV_SYSTEM_CERTS", "UV_NATIVE_TLS")
"""The present and the former name of uv's switch from its built-in certificates."""


def pip_configuration_files(environ: Mapping[str, str]) -> list[Path]:
    """Return pip's configuration files in the order in which later ones win."""
    named = environ.get("PIP_CONFIG_FILE")
    if named == os.devnull:
        return []
    home = Path(environ.get("HOME") or Path.home())
    own = Path(environ.get("XDG_CONFIG_HOME") or home / ".config")
    machine = [Path("/etc/xdg/pip/pip.conf"), Path("/etc/pip.conf")]
    user = [home / ".pip" / "pip.conf", own / "pip" / "pip.conf"]
    return machine + user + ([Path(named)] if named else [])


def pip_settings(environ: Mapping[str, str]) -> dict[str, str]:
    """Return what pip is told about indexes: ``{"index-url": ...}``, lists joined by spaces."""
    settings: dict[str, str] = {}
    for file in pip_configuration_files(environ):
        parser = configparser.RawConfigParser()
        parser.read(file, encoding="utf-8")
        for section in ("global", "install"):
            if parser.has_section(section):
                settings.update(parser.items(section))
    for name in UV_NAMES:
        value = environ.get("PIP_" + name.upper().replace("-", "_"))
        if value:
            settings[name] = value
    return {name: " ".join(settings[name].split()) for name in UV_NAMES if settings.get(name)}


def uv_settings(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the environment variables that tell uv what only pip was told."""
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
        # Where a proxy opens TLS, its certificate authority is in the system's store only.
        found |= {name: "true" for name in SYSTEM_STORE_SWITCHES if name not in environ}
    return found


def index_url(environ: Mapping[str, str]) -> str:
    """Return the address of the simple index, as *environ* or pip's configuration name it."""
    told = {**uv_settings(environ), **environ}
    return told.get("UV_DEFAULT_INDEX") or told.get("UV_INDEX_URL") or PUBLIC_INDEX
