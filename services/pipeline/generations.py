"""Names the generations of a topic in one backup; each generation is a separate log.

A topic that was deleted and recreated, or whose log an unclean election truncated, gets a new
folder (``TOPIC~2``, then ``TOPIC~3``), so that records of different logs are never joined. Kafka
Backup reads only the folder with the topic's name. To support it, the latest generation can have
that name, and older ones are renamed to ``TOPIC~1``, ``TOPIC~2``. No generation is ever removed.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum

from breakglass.services.errors import UsageError
from breakglass.services.topic_backup.folder import LocalFolder, storage_errors
from breakglass.services.topic_backup.layout import folder_name, generations
from breakglass.services.topic_backup.store.form import StoredForm
from breakglass.services.topic_backup.store.store import LocalStore, Store


class NewGeneration(StrEnum):
    """The folder that a new generation of a topic gets."""

    BESIDE = "beside"
    REPLACE = "replace"


@dataclass(frozen=True, slots=True, order=True)
class Generation:
    """One folder of a topic."""

    topic: str
    number: int = 1
    others_aside: bool = False
    """The older generations were renamed: this folder has the name of the topic."""

    @property
    def name(self) -> str:
        return self.topic if self.others_aside else folder_name(self.topic, self.number)


def name_before(one: Generation) -> str | None:
    """The folder's name of the generation before *one*; None if it is the first."""
    if one.number == 1:
        return None
    before = one.number - 1
    return f"{one.topic}~{before}" if one.others_aside else folder_name(one.topic, before)


def latest(store: Store, topic: str) -> Generation:
    """The newest generation of *topic* in *store*; the first generation if *store* has none."""
    found = generations([*store.folders(), topic])
    numbers = [number for of, number in found.values() if of == topic]
    others_aside = found[topic][1] > 1
    return Generation(topic, max(numbers), others_aside)


def following(newest: Generation, wanted: NewGeneration | None) -> Generation:
    """The generation after *newest*, named as *wanted* says, by default like the earlier ones.

    Raises:
        UsageError: older generations were renamed, and *wanted* asks for a folder beside them.
    """
    if newest.others_aside and wanted is NewGeneration.BESIDE:
        raise UsageError(
            f"Older generations of {newest.topic} were set aside in this backup: give "
            "--new-generation replace, or back up to another place."
        )
    others_aside = newest.others_aside or wanted is NewGeneration.REPLACE
    return Generation(newest.topic, newest.number + 1, others_aside)


def require_replaceable(store: Store, form: StoredForm | None) -> None:
    """Check that Kafka Backup can read the folders of *store*, and that they can be renamed.

    Raises:
        UsageError: the folders are in an object store, compressed or encrypted.
    """
    if not isinstance(store, LocalStore) or (form is not None and form != StoredForm()):
        raise UsageError(
            "--new-generation replace is for backups that Kafka Backup can read: a folder, "
            "without --compress and --key."
        )


def set_aside(store: Store, newest: Generation) -> None:
    """Rename the folder with the name of the topic, for the generation after *newest*.

    Raises:
        AlreadyRunning: another process writes to the folder.
        UsageError, StorageError: it cannot be renamed.
    """
    require_replaceable(store, None)
    assert isinstance(store, LocalStore)
    own = replace(newest, number=newest.number if newest.others_aside else 1)
    folder = LocalFolder(store.path / own.topic)
    aside = store.path / f"{own.topic}~{own.number}"
    with folder.lock(), storage_errors(str(aside)):
        folder.path.rename(aside)
