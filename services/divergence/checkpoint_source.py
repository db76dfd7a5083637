"""One partition's copy in a store of checkpoints as a source: segments cut at the checkpoint."""

from __future__ import annotations

from breakglass.services.checkpoint.spark.copied_files import segments_store
from breakglass.services.checkpoint.store.backup_store import BackupStore
from breakglass.services.checkpoint.store.layout import contents
from breakglass.services.checkpoint.store.stored import StoredPartition
from breakglass.services.divergence.address import SourceAddress
from breakglass.services.divergence.backup_opening import open_backup
from breakglass.services.divergence.backup_source import BackupSource
from breakglass.services.errors import UsageError
from breakglass.services.topic_backup.folder import Folder


def open_checkpoint(address: SourceAddress) -> BackupSource:
    """The copy that stands for the partition in its checkpoint.

    Raises:
        UsageError: there is no such checkpoint, or no completed copy in it.
        StorageError, MalformedInput, UnsupportedSchema: the store cannot be read.
    """
    place, _, id = address.place.rpartition("/")
    found = BackupStore(place or "/").read(int(id))
    if found is None:
        raise UsageError(f"{place or '/'} holds no checkpoint {id}: check the address.")
    wanted = (address.folder, address.partition)
    for one in found.partitions:
        if one.subject is not None and (one.subject.topic, one.subject.partition) == wanted:
            return open_backup(str(address), _folder(place or "/", one, address), address.partition)
    raise UsageError(f"checkpoint {id} is not of {address.topic_partition}: check the address.")


def _folder(place: str, held: StoredPartition, address: SourceAddress) -> Folder:
    """Where the copy's segments are: a topic backup that ends with the cut."""
    copy = held.counting
    if copy is None or copy.manifest is None:
        why = held.failure or f"it is {held.status}"
        raise UsageError(f"{address} holds no completed copy ({why}): name another checkpoint.")
    return segments_store(f"{place}/{contents(copy.id)}").folder(address.folder)
