"""The generations of a topic in one backup: a log that is not the old one's continuation.

A topic that was deleted and created anew, or whose log was cut by an unclean election, begins a
folder of its own: nothing is ever joined that was never one log. Beside the older folder it is
``TOPIC~2``, ``TOPIC~3``. Kafka Backup knows a topic by the folder of its own name alone; for its
sake the newest generation can have that name, and the older ones are set aside as ``TOPIC~1``,
``TOPIC~2``. No generation is ever removed.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum

from services.errors import UsageError
from services.topic_backup.folder import LocalFolder, storage_errors
from services.topic_backup.layout import folder_name, generations
from services.topic_backup.store.form import StoredForm
from services.topic_backup.store.store import LocalStore, Store


class NewGeneration(StrEnum):
    """Which folder a new generation of a topic gets."""

    BESIDE = "beside"
    REPLACE = "replace"


@dataclass(frozen=True, slots=True, order=True)
class Generation:
    """One folder of a topic."""

    topic: str
    number: int = 1
    others_aside: bool = False
    """The older generations were set aside: this folder has the topic's own name."""

    @property
    def name(self) -> str:
        """The folder's name."""
        return self.topic if self.others_aside else folder_name(self.topic, self.number)


def latest(store: Store, topic: str) -> Generation:
    """The newest generation of *topic* in *store*; the first one where there is none."""
    found = generations([*store.folders(), topic])
    numbers = [number for of, number in found.values() if of == topic]
    others_aside = found[topic][1] > 1
    return Generation(topic, max(numbers), others_aside)


def following(newest: Generation, wanted: NewGeneration | None) -> Generation:
    """The generation that comes after *newest*; unless *wanted* says how, as those before it.

    Raises:
        UsageError: older generations were set aside, and the new one is wanted beside them.
    """
    if newest.others_aside and wanted is NewGeneration.BESIDE:
        raise UsageError(
            f"Older generations of {newest.topic} were set aside in this backup: give "
            "--new-generation replace, or back up to another place."
        )
    others_aside = newest.others_aside or wanted is NewGeneration.REPLACE
    return Generation(newest.topic, newest.number + 1, others_aside)


def require_replaceable(store: Store, form: StoredForm | None) -> None:
    """Return if the folders of *store* are such that Kafka Backup reads and that can be renamed.

    Raises:
        UsageError: they are in an object store, compressed or encrypted.
    """
    if not isinstance(store, LocalStore) or (form is not None and form != StoredForm()):
        raise UsageError(
            "--new-generation replace is for backups that Kafka Backup can read: a folder, "
            "without --compress and --encrypt-key."
        )


def set_aside(store: Store, newest: Generation) -> None:
    """Rename the folder that has the topic's own name: the one after *newest* takes the name.

    Raises:
        AlreadyRunning: another process writes in the folder.
        UsageError, StorageError: it cannot be renamed.
    """
    require_replaceable(store, None)
    assert isinstance(store, LocalStore)
    own = replace(newest, number=newest.number if newest.others_aside else 1)
    folder = LocalFolder(store.path / own.topic)
    aside = store.path / f"{own.topic}~{own.number}"
    with folder.lock(), storage_errors(str(aside)):
        folder.path.rename(aside)
