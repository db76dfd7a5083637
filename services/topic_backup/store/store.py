"""Opens a location of topic backups by the address that an operator types."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urlsplit

from breakglass.services.errors import UsageError
from breakglass.services.topic_backup.folder import Folder, LocalFolder, storage_errors
from breakglass.services.topic_backup.layout import require_folder_name
from breakglass.services.topic_backup.store.blobs import Blobs, LocalBlobs
from breakglass.services.topic_backup.store.form import StoredForm, form_of, in_form
from breakglass.services.topic_backup.store.fsspec_blobs import FsspecBlobs
from breakglass.services.topic_backup.store.key import Key
from breakglass.services.topic_backup.store.runs_folder import RunsFolder

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

        Raises:
            UsageError: the folder has another form than *wanted*, or is encrypted without a key.
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

    Raises:
        UsageError: the URL names a file of another machine, no store, or credentials.
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

    Raises:
        UsageError: a file URL of another machine.
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
