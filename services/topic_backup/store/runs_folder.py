"""A topic's folder in which files never change: each run adds files, each commit a manifest.

::

    orders/
      breakglass_manifest_0000000007.json             the last commit, and some before it
      breakglass_groups_1767225600000.json            states of groups' offsets
      consumer_offsets_partition_000
      run-0000000007-<token>-<attempt>/               of the run that made commit 7
        segment_partition_000_from_offset_0000001000_records
        segment_partition_000_from_offset_0000001000_index

A commit creates the next manifest if it does not exist, so only one of two runs that began at the
same commit succeeds. Run folders are named by their commit, so the files of a failed run can be
distinguished from those of a run that may still commit, and removed.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import BinaryIO, ClassVar

from breakglass.services.errors import AlreadyRunning
from breakglass.services.topic_backup.folder import NewFile, State, is_temporary, read_whole
from breakglass.services.topic_backup.layout import MANIFEST, records_name, segment_index_name
from breakglass.services.topic_backup.manifest import MAX_MANIFEST_BYTES, TopicManifest, decode
from breakglass.services.topic_backup.store.blobs import Blobs, require_create_once

KEPT_MANIFESTS = 10
"""How many commits stay for readers that still use them."""

_LOOKED: dict[str, int] = {}
"""The commit at which a folder was last searched for removable files."""
_STEM = MANIFEST.removesuffix(".json")
_VERSION = re.compile(rf"{_STEM}_([0-9]{{10,19}})\.json", re.ASCII)
_IN_RUN = re.compile(r"run-([0-9]{10,19})-[^/]+/[^/]+", re.ASCII)


@dataclass(frozen=True, slots=True)
class RunsFolder:
    """A folder in which files never change."""

    blobs: Blobs
    original: ClassVar[bool] = False

    def where(self, name: str = "") -> str:
        return self.blobs.where(name)

    def names(self) -> list[str]:
        return [name for name in self.blobs.names() if not is_temporary(name)]

    def size(self, name: str) -> int | None:
        return self.blobs.size(name)

    def state(self, name: str) -> State | None:
        return self.blobs.state(name)

    def open(self, name: str) -> BinaryIO:
        return self.blobs.open(name)

    def begin(self, name: str) -> NewFile:
        return self.blobs.begin(name)

    def replace(self, name: str, chunks: Iterable[bytes]) -> None:
        file = self.blobs.begin(name)
        try:
            for chunk in chunks:
                file.write(memoryview(chunk))
            file.close()
        except BaseException:
            file.abandon()
            raise

    def remove(self, name: str) -> None:
        self.blobs.remove([name])

    def sync(self) -> None:
        """Do nothing: closed files are durable."""

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Check that only one of two commits can succeed; then no writer must be kept out.

        Raises:
            StorageError: the store lets two writers create the same name.
        """
        require_create_once(self.blobs)
        yield

    def manifest(self) -> str | None:
        return last_manifest(self.names())

    def commit(self, version: int, content: bytes, /) -> None:
        if not self.blobs.create(version_name(version), content):
            raise AlreadyRunning(
                f"{self.where()}: another run committed number {version} first, so this one "
                "committed nothing: run the command again."
            )

    def remove_stale(self) -> None:
        """Sometimes remove the files that no kept commit names and no later commit will.

        The search costs more than a small commit, so it runs only once in several commits.
        """
        names = self.blobs.names()
        versions = sorted(_versions(names).items())[-KEPT_MANIFESTS:]
        if (
            versions
            and versions[-1][0] >= _LOOKED.get(self.where(), -KEPT_MANIFESTS) + KEPT_MANIFESTS
        ):
            _LOOKED[self.where()] = versions[-1][0]
            self.blobs.remove(stale(names, [self._read(name) for _, name in versions]))

    def _read(self, name: str) -> TopicManifest:
        return decode(read_whole(self, name, MAX_MANIFEST_BYTES), self.where(name))


def version_name(version: int) -> str:
    """The name of the manifest of commit *version*."""
    return f"{_STEM}_{version:010d}.json"


def last_manifest(names: Collection[str]) -> str | None:
    """The current manifest among *names*: the last, or the one of a copied local folder."""
    versions = _versions(names)
    if versions:
        return versions[max(versions)]
    return MANIFEST if MANIFEST in names else None


def stale(names: Iterable[str], kept: Sequence[TopicManifest]) -> list[str]:
    """The *names* that can be removed if *kept* are the manifests to keep.

    They are older manifests, and files that no kept manifest names, of runs for the kept commits or
    earlier ones.
    """
    last, first = kept[-1].commit, kept[0].commit
    parts = [part for manifest in kept for part in manifest.partitions]
    named = {
        name(segment.prefix)
        for part in parts
        for segment in part.segments
        for name in (records_name, segment_index_name)
    }
    gone = []
    for name in names:
        if match := _IN_RUN.fullmatch(name):
            gone += [name] if int(match[1]) <= last and name not in named else []
        elif match := _VERSION.fullmatch(name):
            gone += [name] if int(match[1]) < first else []
    return gone


def _versions(names: Iterable[str]) -> dict[int, str]:
    return {int(match[1]): name for name in names if (match := _VERSION.fullmatch(name))}
