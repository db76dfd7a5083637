"""A topic's folder in which nothing is changed: each run adds files, each commit a manifest.

::

    orders/
      breakglass_manifest_0000000007.json             the last commit, and some before it
      breakglass_groups_1767225600000.json            states of groups' offsets
      consumer_offsets_partition_000
      run-0000000007-<token>-<attempt>/               of the run that made commit 7
        segment_partition_000_from_offset_0000001000_records
        segment_partition_000_from_offset_0000001000_index

A commit creates the next manifest, if nobody else has: of two runs that began at one commit one
succeeds. Names within hold the commit they are for, so what another run left can be told from
what it may still commit, and removed.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import BinaryIO, ClassVar

from breakglass.services.errors import AlreadyRunning, StorageError
from breakglass.services.topic_backup.folder import TEMPORARY, NewFile, State, read_whole
from breakglass.services.topic_backup.layout import MANIFEST, records_name, segment_index_name
from breakglass.services.topic_backup.manifest import MAX_MANIFEST_BYTES, TopicManifest, decode
from breakglass.services.topic_backup.store.blobs import Blobs

KEPT_MANIFESTS = 10
"""Commits that stay, for who still reads by one of them."""
PROBE = "breakglass_probe"

_PROVED: set[str] = set()
"""Folders whose store is known to keep writers apart."""
_LOOKED: dict[str, int] = {}
"""The commit at which a folder was last looked through for what can go."""
_STEM = MANIFEST.removesuffix(".json")
_VERSION = re.compile(rf"{_STEM}_([0-9]{{10,19}})\.json", re.ASCII)
_IN_RUN = re.compile(r"run-([0-9]{10,19})-[^/]+/[^/]+", re.ASCII)


@dataclass(frozen=True, slots=True)
class RunsFolder:
    """Such a folder."""

    blobs: Blobs
    original: ClassVar[bool] = False

    def where(self, name: str = "") -> str:
        return self.blobs.where(name)

    def names(self) -> list[str]:
        return [one for one in self.blobs.names() if not _temporary(one)]

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
        """Nothing: what was closed is durable."""

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Make sure that of two commits one fails; nobody has to be kept out then.

        Raises:
            StorageError: the store does not keep two writers apart.
        """
        where = self.where()
        if where in _PROVED:
            yield
            return
        self.blobs.create(PROBE, b"1\n")
        if self.blobs.create(PROBE, b"2\n"):
            raise StorageError(
                f"{self.where()}: the store overwrites an object that must not be (it does not "
                "honour If-None-Match), so two runs could both commit: use another store."
            )
        _PROVED.add(where)
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
        """Remove what none of the last commits names, and none ever will; not each time.

        Looking for it costs more than a small commit, so between two looks there are some.
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
    """The file with the manifest of that commit."""
    return f"{_STEM}_{version:010d}.json"


def last_manifest(names: Collection[str]) -> str | None:
    """The manifest that counts among *names*: the last one, or that of a copied local folder."""
    versions = _versions(names)
    if versions:
        return versions[max(versions)]
    return MANIFEST if MANIFEST in names else None


def stale(names: Iterable[str], kept: Sequence[TopicManifest]) -> list[str]:
    """Those of *names* that can go when the manifests *kept* are the last ones.

    Files of runs for those commits or earlier ones that none of them names; older manifests.
    """
    last, first = kept[-1].commit, kept[0].commit
    parts = [part for manifest in kept for part in manifest.partitions]
    named = {
        name(one.prefix)
        for part in parts
        for one in part.segments
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
    """The manifests among *names* by their numbers."""
    return {int(match[1]): name for name in names if (match := _VERSION.fullmatch(name))}


def _temporary(name: str) -> bool:
    before, after = TEMPORARY
    return name.rpartition("/")[2].startswith(before) and name.endswith(after)
