"""Places of backups made for a test: one in memory, one on disk, each in some form."""

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from breakglass.services.topic_backup.store.blobs import KEY_BYTES, Key
from breakglass.services.topic_backup.store.form import StoredForm
from breakglass.services.topic_backup.store.store import LocalStore, ObjectStore, RunsFolder, Store

KEY = Key(bytes(range(KEY_BYTES)))
OTHER_KEY = Key(bytes(KEY_BYTES))
PLAIN, COMPRESSED, ENCRYPTED = StoredForm(), StoredForm(compressed=True), StoredForm(encrypted=True)
BOTH = StoredForm(compressed=True, encrypted=True)


@contextmanager
def in_memory(key: Key | None = KEY) -> Iterator[Store]:
    """An object store of this process, empty and forgotten afterwards."""
    from fsspec.implementations.memory import MemoryFileSystem

    place = f"/{uuid.uuid4().hex}"
    try:
        yield ObjectStore(f"memory:/{place}", key)
    finally:
        fs = MemoryFileSystem()
        if fs.exists(place):
            fs.rm(place, recursive=True)


def on_disk(path: Path, key: Key | None = KEY) -> Store:
    """A folder of this machine."""
    return LocalStore(path, key)


def runs_folder(store: Store, form: StoredForm, name: str = "orders") -> RunsFolder:
    """A topic's folder in which nothing is changed."""
    folder = store.folder(name, form)
    assert isinstance(folder, RunsFolder)
    return folder
