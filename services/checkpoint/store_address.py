"""Checks that a store exists at an address, so that a typo does not look like an empty store."""

from __future__ import annotations

from breakglass.services import patience
from breakglass.services.errors import UsageError
from breakglass.services.topic_backup.store.fsspec_blobs import FsspecBlobs, answered
from breakglass.services.topic_backup.store.store import LocalStore, open_store


def require_no_file(address: str) -> None:
    """Return unless the address is a file instead of a folder.

    Raises:
        UsageError: it is a file.
        StorageError: the folder is of a file server that does not answer.
    """
    store = open_store(address)
    if isinstance(store, LocalStore) and answered(
        address, patience.STORE, lambda: store.path.exists() and not store.path.is_dir()
    ):
        raise UsageError(f"{address} is a file: name the folder that the checkpoints are kept in.")


def require_there(address: str) -> None:
    """Return if the store exists at *address*; object stores have no empty folders.

    Raises:
        UsageError: the address does not exist, or is a file.
        StorageError: the store does not answer.
    """
    require_no_file(address)
    store = open_store(address)
    if isinstance(store, LocalStore):
        if not store.path.is_dir():
            raise UsageError(
                f"There is no folder {address}: check the address, or have `breakglass checkpoint "
                "take` make it."
            )
    elif not store.folders() and not FsspecBlobs(store.where()).names():
        raise UsageError(
            f"There is nothing at {address}: check the address, or take the first checkpoint there."
        )
