"""Opens a location of topic backups by the address that an operator types.

A topic's folder in which files never change: each run adds files, each commit a manifest.

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
from pathlib import Path
from typing import BinaryIO, ClassVar
from urllib.parse import unquote, urlsplit

from breakglass.services.errors import AlreadyRunning, UsageError
from breakglass.services.topic_backup.folder import (
    Folder,
    LocalFolder,
    NewFile,
    State,
    is_temporary,
    read_whole,
    storage_errors,
)
from breakglass.services.topic_backup.layout import (
    MANIFEST,
    records_name,
    require_folder_name,
    segment_index_name,
)
from breakglass.services.topic_backup.manifest import MAX_MANIFEST_BYTES, TopicManifest, decode
from breakglass.services.topic_backup.store.blobs import Blobs, Key, LocalBlobs, require_create_once
from breakglass.services.topic_backup.store.form import StoredForm, form_of, in_form
from breakglass.services.topic_backup.store.fsspec_blobs import FsspecBlobs

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

        Raises StorageError: the store lets two writers create the same name.
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
            self.blobs.remove(
                stale(
                    names,
                    [
                        decode(read_whole(self, name, MAX_MANIFEST_BYTES), self.where(name))
                        for _, name in versions
                    ],
                )
            )


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


_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")


@dataclass(frozen=True, slots=True)
class LocalStore:
    """A local folder. Plain backups in it have exactly Kafka Backup's layout."""

    path: Path
    key: Key | None = None

    def where(self, name: str = "") -> str:
        return str(self.path / name) if name else str(self.path)

    def folders(self) -> list[str]:
        """The names of all folders, of topics or not."""
        if not self.path.is_dir():
            return []
        with storage_errors(self.where()):
            return [path.name for path in self.path.iterdir() if path.is_dir()]

    def names(self, name: str) -> list[str]:
        path = self.path / require_folder_name(name)
        if not path.is_dir():
            return []
        flat = LocalFolder(path).names()
        return flat if form_of(flat) == StoredForm() else LocalBlobs(path).names()

    def folder(self, name: str, wanted: StoredForm | None = None) -> Folder:
        """One folder in its existing form; a new folder gets the form *wanted*.

        Raises UsageError: the folder has another form than *wanted*, or is encrypted without a key.
        """
        path = self.path / require_folder_name(name)
        form = _agreed(self.where(name), form_of(self.names(name)), wanted)
        if form.plain:
            return LocalFolder(path)
        return RunsFolder(in_form(LocalBlobs(path), form, self.key, name))


@dataclass(frozen=True, slots=True)
class ObjectStore:
    """A location below a URL that has an fsspec client."""

    url: str
    key: Key | None = None

    def where(self, name: str = "") -> str:
        return FsspecBlobs(self.url).where(name)

    def folders(self) -> list[str]:
        return FsspecBlobs(self.url).folders()

    def names(self, name: str) -> list[str]:
        return self._blobs(name).names()

    def folder(self, name: str, wanted: StoredForm | None = None) -> Folder:
        form = _agreed(self.where(name), form_of(self.names(name)), wanted)
        return RunsFolder(in_form(self._blobs(name), form, self.key, name))

    def _blobs(self, name: str) -> Blobs:
        return FsspecBlobs(f"{self.url}/{require_folder_name(name)}")


Store = LocalStore | ObjectStore
"""Folders of topics under one address."""


def open_store(address: str, key: Key | None = None) -> Store:
    """The location at *address*: a path, a ``file`` URL, or the URL of an object store.

    Raises UsageError: the URL names a file of another machine, no store, or credentials.
    """
    path = local_path(address)
    if path is not None:
        return LocalStore(path.absolute(), key)
    from fsspec import available_protocols

    scheme = address.split("://", 1)[0].lower()
    if scheme not in available_protocols():
        raise UsageError(
            f"{address}: nothing is known of {scheme}://: name a folder, or a URL such as "
            "s3://BUCKET/PREFIX."
        )
    if "@" in urlsplit(address).netloc:
        raise UsageError(
            "A URL with credentials in it shows them to everybody who lists processes: give them "
            "as the store's own tools read them, as by AWS_ACCESS_KEY_ID or a profile."
        )
    return ObjectStore(address.rstrip("/"), key)


def local_path(address: str) -> Path | None:
    """The path of *address*; None if it is the URL of an object store.

    Raises UsageError: a file URL of another machine.
    """
    match = _SCHEME.match(address)
    if match is None:
        return Path(address)
    if match[1].lower() != "file":
        return None
    url = urlsplit(address)
    if url.netloc not in ("", "localhost"):
        raise UsageError(f"{address} is not on this machine: name a folder or a file:/// URL.")
    return Path(unquote(url.path))


def _agreed(where: str, found: StoredForm | None, wanted: StoredForm | None) -> StoredForm:
    """The form to use."""
    if found is not None and wanted is not None and found != wanted:
        raise UsageError(
            f"{where} is {found}, this would be {wanted}: give the same --compress and "
            "--key as before, or back up to another place."
        )
    return found or wanted or StoredForm()
