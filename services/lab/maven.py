"""Resolves Maven artifacts; one process at a time adds to the cache, and only complete files.

Import it only where it is needed: only the extras ``lab`` and ``pipeline`` install jgo.
"""

from __future__ import annotations

import os
from pathlib import Path
from tempfile import TemporaryDirectory

from jgo.config import GlobalSettings
from jgo.maven import Artifact, MavenContext, PythonResolver

from breakglass.services.lab.distribution import cache_lock, repository, trust_the_machine
from breakglass.services.rights import make_folders

TIMEOUT_SECONDS = 30


def maven_context() -> MavenContext:
    """A context that resolves artifacts from the user's cache, or downloads them into it."""
    trust_the_machine(os.environ)
    return _context(GlobalSettings.load().repo_cache, _WholeFiles())


def _context(cache: Path, resolver: PythonResolver) -> MavenContext:
    return MavenContext(
        resolver=resolver,
        repo_cache=cache,
        remote_repos={"central": repository()},
        timeout=TIMEOUT_SECONDS,
    )


class _WholeFiles(PythonResolver):
    """Downloads into a separate folder, and moves complete files into the cache.

    jgo itself writes directly into the cache. There it takes a killed download's partial file for
    complete, and if two processes download the same file, one fails by an assertion.
    """

    def download(self, artifact: Artifact) -> Path | None:
        cached, cache = artifact.cached_path, artifact.context.repo_cache
        if cached is None:
            return super().download(artifact)
        with cache_lock(cache):
            if not cached.exists():
                make_folders(cached.parent)
                with TemporaryDirectory(prefix=".breakglass-", dir=cache) as staging:
                    _fetched_into(Path(staging), artifact).replace(cached)
        return cached


def _fetched_into(staging: Path, artifact: Artifact) -> Path:
    component = artifact.component
    context = _context(staging, PythonResolver())
    there = context.project(component.groupId, component.artifactId).at_version(component.version)
    return Path(there.artifact(artifact.classifier, artifact.packaging).resolve())
