"""What resolves artifacts: one process at a time adds to the cache, and only files that are whole.

Imported where it is needed: jgo comes with the extras ``lab`` and ``pipeline`` alone.
"""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

from jgo.config import GlobalSettings
from jgo.maven import Artifact, MavenContext, PythonResolver

from breakglass.services.maven.repository import cache_lock, repository

TIMEOUT_SECONDS = 30


def maven_context() -> MavenContext:
    """Resolves from the user's own cache, or fetches into it."""
    return _context(GlobalSettings.load().repo_cache, _WholeFiles())


def _context(cache: Path, resolver: PythonResolver) -> MavenContext:
    return MavenContext(
        resolver=resolver,
        repo_cache=cache,
        remote_repos={"central": repository()},
        timeout=TIMEOUT_SECONDS,
    )


class _WholeFiles(PythonResolver):
    """Fetches into a folder beside, and moves what is whole.

    jgo writes into the cache itself: what a killed download left there is taken for whole by the
    next one, and of two processes that fetch the same file at once one ends by an assertion.
    """

    def download(self, artifact: Artifact) -> Path | None:
        cached, cache = artifact.cached_path, artifact.context.repo_cache
        if cached is None:
            return super().download(artifact)
        with cache_lock(cache):
            if not cached.exists():
                cached.parent.mkdir(parents=True, exist_ok=True)
                with TemporaryDirectory(prefix=".breakglass-", dir=cache) as staging:
                    _fetched_into(Path(staging), artifact).replace(cached)
        return cached


def _fetched_into(staging: Path, artifact: Artifact) -> Path:
    component = artifact.component
    context = _context(staging, PythonResolver())
    there = context.project(component.groupId, component.artifactId).at_version(component.version)
    return Path(there.artifact(artifact.classifier, artifact.packaging).resolve())
