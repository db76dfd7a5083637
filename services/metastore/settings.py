"""The settings of a ksqlDB server that a backup of its metastore needs, and the backup's files.

Backup settings have two styles: KLIP-31's, and the style that ksqlDB shipped. The server reads its
command topic with Kafka's client keys, over which those with the prefix
``ksql.server.command.consumer.`` win (KsqlRestConfig); ``ksql.streams.`` is of its queries, and
fills in what is not given otherwise. Only their owner may read the files, because a backup contains
what Kafka's ACLs protect.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from difflib import get_close_matches
from enum import StrEnum
from pathlib import Path

from breakglass.services.connection.properties import Properties, read_properties
from breakglass.services.connection.settings import has_effect
from breakglass.services.connection.sources import ClientFile, expand
from breakglass.services.errors import BadConnectionSettings, StorageError
from breakglass.services.file_lock import lock, open_lock_file
from breakglass.services.rights import open_new, require_own_way
from breakglass.services.topic_backup.folder import LocalAppendFile, LocalFolder, storage_errors

KLIP_END = ".bak"
SHIPPED_BEGIN = "backup_"


class Style(StrEnum):
    """How backup files are named."""

    KLIP = "klip"
    """``<topic>_<seconds>.bak``, as in KLIP-31."""
    SHIPPED = "shipped"
    """``backup_<topic>_<milliseconds>``, as ksqlDB writes it (CommandTopicBackupImpl)."""

    @property
    def unit_ms(self) -> int:
        """The unit of the number in the name, in milliseconds."""
        return 1000 if self is Style.KLIP else 1


def command_topic(service_id: str) -> str:
    """The command topic of a service (ReservedInternalTopics.toKsqlInternalTopic)."""
    return f"_confluent-ksql-{service_id}_command_topic"


def service_of(topic: str) -> str | None:
    """The service of a command topic; None for any other topic."""
    inner = topic.removeprefix("_confluent-ksql-").removesuffix("_command_topic")
    return inner if command_topic(inner) == topic else None


@dataclass(frozen=True, slots=True, order=True)
class BackupName:
    """The name of a backup file; the newest name is the greatest."""

    stamp_ms: int
    """When the backup was begun, according to its name."""
    style: Style
    topic: str

    def __str__(self) -> str:
        number = self.stamp_ms // self.style.unit_ms
        if self.style is Style.KLIP:
            return f"{self.topic}_{number}{KLIP_END}"
        return f"{SHIPPED_BEGIN}{self.topic}_{number}"


def parse_name(name: str, topic: str) -> BackupName | None:
    """The parts of *name*, if it names a backup of *topic* in either style."""
    for style, begin, end in (
        (Style.KLIP, f"{topic}_", KLIP_END),
        (Style.SHIPPED, f"{SHIPPED_BEGIN}{topic}_", ""),
    ):
        if not (name.startswith(begin) and name.endswith(end)):
            continue
        number = name[len(begin) : len(name) - len(end)]
        if number.isascii() and number.isdigit() and int(number) > 0:
            return BackupName(int(number) * style.unit_ms, style, topic)
    return None


def newest(names: Iterable[str], topic: str) -> BackupName | None:
    """The backup of *topic* that is continued: the newest."""
    return max(filter(None, (parse_name(name, topic) for name in names)), default=None)


def new_name(names: Iterable[str], topic: str, style: Style, now_ms: int) -> BackupName:
    """An unused name that is newer than all others, so that the next run continues it."""
    last = newest(names, topic)
    unit = style.unit_ms
    stamp = now_ms - now_ms % unit
    if last is not None and last.stamp_ms >= stamp:
        stamp = (last.stamp_ms // unit + 1) * unit
    return BackupName(stamp, style, topic)


ENABLE = ("ksql.enable.metastore.backup", "ksql.metastore.enable.backup")
"""KLIP-31 uses both names for this setting."""
LOCATION = "ksql.metastore.backup.location"
SERVICE_ID = "ksql.service.id"
DEFAULT_SERVICE_ID = "default_"
REPLICAS = "ksql.internal.topic.replicas"
MIN_INSYNC = "ksql.internal.topic.min.insync.replicas"
PERSISTENT_PREFIX = "ksql.persistent.prefix"
DEFAULT_PERSISTENT_PREFIX = "query_"

_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")


@dataclass(frozen=True, slots=True)
class MetastoreSettings:
    """A ksqlDB service and the location of its backups."""

    service_id: str = DEFAULT_SERVICE_ID
    location: Path | None = None
    """None: the user's data folder."""
    enabled: bool = True
    why: str = ""
    """The setting that decides, in words, if a setting was read."""
    style: Style = Style.KLIP
    replicas: int = 1
    min_insync: int | None = None
    """None: the brokers' default."""
    persistent_prefix: str = DEFAULT_PERSISTENT_PREFIX

    @property
    def topic(self) -> str:
        return command_topic(self.service_id)


def settings_of(properties: Properties) -> MetastoreSettings:
    """The settings in *properties*.

    KLIP-31 has a switch and a location; ksqlDB as shipped has only the location, which is also the
    switch.

    Raises: BadConnectionSettings for contradictory spellings, an invalid value, and a location
        that is a URL.
    """
    location = properties.text(LOCATION)
    told = _switch(properties)
    enabled, why, style = bool(location), f"{LOCATION} is not set", Style.KLIP
    if told is not None:
        key, enabled = told
        why = f"{key} is {str(enabled).lower()}"
    elif location:
        why, style = f"{LOCATION} is set", Style.SHIPPED
    minimum = properties.text(MIN_INSYNC)
    return MetastoreSettings(
        service_id=properties.text(SERVICE_ID) or DEFAULT_SERVICE_ID,
        location=None if not location else local_folder(location, properties, LOCATION),
        enabled=enabled,
        why=why if told is not None or location else f"none of {', '.join(ENABLE)} is set",
        style=style,
        replicas=properties.number(REPLICAS, 1),
        min_insync=None if minimum is None else properties.number(MIN_INSYNC, 1),
        persistent_prefix=properties.text(PERSISTENT_PREFIX) or DEFAULT_PERSISTENT_PREFIX,
    )


def _switch(properties: Properties) -> tuple[str, bool] | None:
    told = [(key, properties.flag(key)) for key in ENABLE if properties.text(key) is not None]
    if not told:
        return None
    if len({value for _, value in told}) > 1:
        raise properties.error(ENABLE[0], f"contradicts {ENABLE[1]}; keep one of the two")
    return told[0]


def local_folder(text: str, properties: Properties | None = None, key: str = "--store") -> Path:
    """A local folder: several servers would write to a shared file system.

    Raises: BadConnectionSettings for a URL.
    """
    if _URL.match(text):
        problem = "is a URL; only a folder of this machine can hold a metastore backup"
        if properties is not None:
            raise properties.error(key, problem)
        raise BadConnectionSettings(f"{key} {problem}.")
    return Path(text).expanduser()


def default_folder() -> Path:
    """The folder for backups when no setting names one: the user's data folder."""
    import platformdirs

    return platformdirs.user_data_path("breakglass") / "metastore"


PREFIXES = ("ksql.streams.", "", "ksql.server.command.consumer.")
"""The prefixes of client keys; later ones win."""
TAKEN = (SERVICE_ID, LOCATION, *ENABLE, REPLICAS, MIN_INSYNC, PERSISTENT_PREFIX)
"""The keys of ksqlDB and of KLIP-31 that are read."""
ALIKE = 0.9


@dataclass(frozen=True, slots=True)
class KsqlServerConfig:
    """What a server's file says, as far as it is of use here."""

    settings: MetastoreSettings
    client_file: ClientFile
    remarks: tuple[str, ...]
    """Which keys have no effect; without their values."""


def read_server_config(path: Path, environ: Mapping[str, str] = os.environ) -> KsqlServerConfig:
    """Read the file at *path*; variables get their values where the file declares a provider.

    Raises: BadConnectionSettings for a file that cannot be read, and for contradictory or invalid
        settings of backups.
    """
    properties = read_properties(path)
    own = {
        key: properties[key]
        for key in properties
        if key in TAKEN or key.startswith("config.providers")
    }
    settings = settings_of(expand(Properties(own, properties.name), environ))
    # The client's settings under Kafka's own keys.
    found = {}
    for prefix in PREFIXES:
        for key, entry in properties.items():
            name = key.removeprefix(prefix)
            if key.startswith(prefix) and has_effect(name):
                found[name] = entry
    client = Properties(found, properties.name)
    return KsqlServerConfig(settings, ClientFile(path, client), tuple(_remarks(properties)))


def _remarks(properties: Properties) -> Iterator[str]:
    ignored = [
        key
        for key in properties
        if not (
            key in TAKEN
            or any(
                key.startswith(prefix) and has_effect(key.removeprefix(prefix))
                for prefix in PREFIXES
            )
        )
    ]
    if ignored:
        yield f"{properties.name}: keys without effect here: {', '.join(ignored)}."
    for key in ignored:
        close = get_close_matches(key, TAKEN, 1, ALIKE)
        if close:
            yield f"{properties[key].origin}: {key} is not known. Is {close[0]} meant?"


FILE_MODE = 0o600
FOLDER_MODE = 0o700
LOCKS = Path("/proc/locks")


def private_folder(path: Path) -> LocalFolder:
    """The folder at *path*, created with its parents for its owner alone; permissions are fixed.

    Raises:
        StorageError: it cannot be used, or belongs to another account, which may change its files.
    """
    with storage_errors(str(path)):
        require_own_way(path)
        missing = not path.exists()
        path.mkdir(mode=FOLDER_MODE, parents=True, exist_ok=True)
        if missing:
            LocalFolder(path.parent).sync()
        found = path.stat()
        if found.st_uid != os.geteuid():
            raise StorageError(
                f"{path} belongs to another account (user id {found.st_uid}), which can change "
                "what is in it: run as that account, or name a folder of your own."
            )
        if found.st_mode & 0o777 != FOLDER_MODE:
            path.chmod(FOLDER_MODE)
    return LocalFolder(path)


def private_append(path: Path, at: int) -> LocalAppendFile:
    """Open the file at *path* for appending: created if missing, and truncated to *at* bytes.

    Raises: StorageError.
    """
    with storage_errors(str(path)):
        descriptor = open_new(path, os.O_WRONLY | os.O_CREAT)
        try:
            os.fchmod(descriptor, FILE_MODE)
        finally:
            os.close(descriptor)
    return LocalAppendFile(path, at)


def fingerprint(path: Path) -> tuple[int, int]:
    """The identity and size of the file at *path*; a write by another program changes them.

    Raises: StorageError.
    """
    with storage_errors(str(path)):
        found = os.stat(path)
    return found.st_ino, found.st_size


def lock_file(location: Path, topic: str) -> Path:
    """The lock file that a writer of backups of *topic* in *location* must lock."""
    return location / f".{topic}.lock"


def is_locked(path: Path) -> bool:
    """Whether a process holds the lock, by the kernel's list: taking it would disturb others."""
    try:
        stat = path.stat()
        locks = LOCKS.read_text(encoding="ascii", errors="replace")
    except OSError:
        return False
    file = f"{os.major(stat.st_dev):02x}:{os.minor(stat.st_dev):02x}:{stat.st_ino}"
    return any(file in line.split() and "FLOCK" in line for line in locks.splitlines())


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Lock the file at *path* for the block; the kernel releases it when the process ends.

    Raises:
        AlreadyRunning: another process has the lock.
        StorageError: the file cannot be used.
    """
    with storage_errors(str(path)):
        descriptor = open_lock_file(path)
    try:
        lock(
            descriptor,
            lambda: (
                f"{path.parent} is written by another backup of this service: leave that backup "
                "running, or end it first."
            ),
            lambda reason: f"{path} cannot be locked ({reason}); use a local folder.",
        )
        yield
    finally:
        os.close(descriptor)


def remove_if_there(path: Path) -> None:
    """Remove a file if it exists. Raises: StorageError."""
    with storage_errors(str(path)):
        path.unlink(missing_ok=True)
