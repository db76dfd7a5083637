"""What `breakglass quorum inspect` finds in copies of the metadata log and in data folders."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from breakglass.services.errors import BreakglassError, UsageError, WrongCluster
from breakglass.services.model import Unknown
from breakglass.services.quorum.change_words import SaidChange, said_changes
from breakglass.services.quorum.comparison import ComparedCopy, Relation, compare_copies
from breakglass.services.quorum.data_folders import DataFindings, compare_data
from breakglass.services.quorum.image import Key, replay
from breakglass.services.quorum.metadata_copy import (
    METADATA_FOLDER,
    MetadataCopy,
    MetadataSnapshot,
    meta_properties,
    metadata_folder,
    read_copy,
)
from breakglass.services.recovery.rescue.broker_folder import (
    LOG,
    META,
    BrokerFolder,
    read_broker_folder,
    running_broker,
)

if TYPE_CHECKING:
    from breakglass.services.quorum.status import AnsweringNode


@dataclass(frozen=True, slots=True)
class NamedFolder:
    """A folder that was named, and whose it is."""

    path: Path
    node: int | Unknown
    directory_id: str | Unknown
    strays: tuple[str, ...]
    """Folders in it that a broker renamed to ``-stray``."""
    running: bool
    """A process holds the lock of the folder."""


@dataclass(frozen=True, slots=True)
class CopyLack:
    """What one copy lacks against the best one, and what it alone has."""

    compared: ComparedCopy
    records: int | Unknown
    """The number of records that the best copy has from `shared` on."""
    changes: tuple[SaidChange, ...] | Unknown
    """What these records changed, in words."""
    own: tuple[SaidChange, ...] | Unknown = ()
    """At a fork: what the copy's own records from there on changed."""

    @property
    def lacks(self) -> bool:
        return self.records != 0


@dataclass(frozen=True, slots=True)
class QuorumInspection:
    """Copies of a cluster's metadata log, the best one first, and what hangs on the choice."""

    copies: tuple[ComparedCopy, ...]
    chosen: ComparedCopy
    """The copy that the cluster would come back from."""
    lacks: tuple[CopyLack, ...]
    """For the chosen copy; if none was chosen, for every copy but the best."""
    unknown: tuple[tuple[int, str], ...]
    """Records of the best copy, or of the chosen one, that could not be decoded: offset, type and
    version."""
    surviving: tuple[tuple[ComparedCopy, tuple[MetadataSnapshot, ...]], ...]
    """Snapshots that stay if their node starts under the chosen copy (Q22)."""
    data: DataFindings | Unknown | None
    """None: no folder with data was named."""
    named: tuple[NamedFolder, ...] = ()
    """Every folder that was named."""
    state: Mapping[Key, Any] | Unknown = field(default_factory=dict)
    """The state of the cluster by the chosen copy."""
    producer_id: int = 0
    """The next producer id by the best copy."""
    in_transaction: bool = False
    """The chosen copy ends inside a metadata transaction."""
    answering: tuple[AnsweringNode, ...] = ()
    """Nodes that run at the addresses in the chosen copy, if these were asked."""

    @property
    def cluster_id(self) -> str | Unknown:
        ids = [one.copy.cluster_id for one in self.copies if isinstance(one.copy.cluster_id, str)]
        return ids[0] if ids else Unknown("no folder has a meta.properties with the cluster id")

    @property
    def running(self) -> frozenset[int | Unknown]:
        """Nodes one of whose folders is locked, or that answer: what was named may be a copy."""
        copies = {one.copy.node for one in self.copies if one.copy.running}
        answering = {one.node for one in self.answering if one.asked}
        return frozenset(copies | answering | {one.node for one in self.named if one.running})

    @property
    def in_order(self) -> bool:
        """Whether each copy is whole and proved a prefix of the best, and nothing is lost."""
        return (
            all(one.proved and not one.copy.damage for one in self.copies)
            and not self.unknown
            and not self.surviving
            and (self.chosen is self.copies[0] or not any(one.lacks for one in self.lacks))
            and (self.data is None or (isinstance(self.data, DataFindings) and self.data.in_order))
        )


def inspect_copies(
    addresses: Sequence[str],
    chosen: str | None = None,
    go_on: Callable[[], object] = lambda: None,
) -> QuorumInspection:
    """Read and compare the copies at *addresses*, each ``log:DIR``; nothing is written.

    Raises:
        UsageError: an address names no folder of a metadata log and no log folder; *chosen* is
            not among the copies.
        WrongCluster: the folders are of several clusters.
        StorageError: a folder cannot be listed, or a file changed while it was read.
    """
    paths = list(dict.fromkeys(_path(address) for address in addresses))
    copies: list[MetadataCopy] = []
    folders: list[BrokerFolder] = []
    for path in paths:
        go_on()
        found = metadata_folder(path)
        if found is not None:
            copies.append(read_copy(found))
        if path != found and _has_data(path):
            folders.append(read_broker_folder(path))
        elif found is None and not (path / META).exists():
            raise UsageError(f"{path} has neither {METADATA_FOLDER} nor {META}: name a log folder.")
    if not copies:
        raise UsageError(f"no folder has {METADATA_FOLDER}: name one of a controller or a broker.")
    _require_one_cluster(copies, folders)
    compared = compare_copies(copies)
    choice = compared[0]
    if chosen is not None:
        wanted = metadata_folder(_path(chosen))
        named = [one for one in compared if one.copy.path == wanted]
        if not named:
            raise UsageError(
                f"--copy {chosen} is not among the folders: name it as an argument as well."
            )
        choice = named[0]
    found_all = _inspected(compared, choice, folders, go_on, all_of_them=chosen is None)
    return replace(found_all, named=tuple(map(_named, paths)))


def _inspected(
    compared: tuple[ComparedCopy, ...],
    choice: ComparedCopy,
    folders: Sequence[BrokerFolder],
    go_on: Callable[[], object],
    *,
    all_of_them: bool,
) -> QuorumInspection:
    best = compared[0]
    asked = compared[1:] if all_of_them else [one for one in compared[1:] if one is choice]
    agreeing = [one.copy for one in compared if one.proved]
    known = [one.shared for one in (*asked, choice) if one.relation is not Relation.UNCOMPARED]
    unknown: tuple[tuple[int, str], ...] = ()
    lacks: list[CopyLack] = []
    data: DataFindings | Unknown | None = None
    state: Mapping[Key, Any] | Unknown
    producer_id, inside = 0, False
    try:
        image = replay(agreeing, min(known, default=best.shared))
        unknown = tuple(image.unknown)
        for one in asked:
            go_on()
            if one.relation is Relation.UNCOMPARED:
                why = Unknown("its log ends before the best copy can be compared with it")
                lacks.append(CopyLack(one, why, why))
                continue
            records = best.copy.end.offset - one.shared
            early = Unknown(f"no copy has the state at offset {one.shared:,}")
            changes = (
                said_changes(image.changes(one.shared), image.values)
                if one.shared >= image.noted_from
                else early
            )
            lacks.append(CopyLack(one, records, changes, _own(one)))
        producer_id = image.values.get(("producer ids",), 0)
        if choice.proved and choice.shared >= image.noted_from:
            state, inside = image.before(choice.shared), image.open_at(choice.shared)
        else:
            # Not proved to be a prefix of the best copy, so it speaks for itself.
            alone = replay([choice.copy], choice.copy.end.offset)
            state, unknown = alone.values, (*unknown, *alone.unknown)
            inside = alone.open_at(choice.copy.end.offset)
        if folders:
            data = compare_data(folders, state, go_on)
    except BreakglassError as error:
        reason = Unknown(str(error))
        lacks = [CopyLack(one, best.copy.end.offset - one.shared, reason) for one in asked]
        data = reason if folders else None
        state = reason
    surviving = (
        (one, one.snapshots_past(min(one.shared, choice.shared)))
        for one in compared
        if one is not choice
    )
    return QuorumInspection(
        copies=compared,
        chosen=choice,
        lacks=tuple(lacks),
        unknown=unknown,
        surviving=tuple(row for row in surviving if row[1]),
        data=data,
        state=state,
        producer_id=producer_id,
        in_transaction=inside,
    )


def _own(one: ComparedCopy) -> tuple[SaidChange, ...] | Unknown:
    """What a copy that parts from the best one has of its own."""
    if one.fork is None:
        return ()
    try:
        image = replay([one.copy], one.shared)
    except BreakglassError as error:
        return Unknown(str(error))
    if image.noted_from > one.shared:
        return Unknown(f"the copy does not have the state at offset {one.shared:,}")
    return said_changes(image.changes(one.shared), image.values)


def _named(path: Path) -> NamedFolder:
    meta = meta_properties(metadata_folder(path) or path / METADATA_FOLDER)
    node = meta["node.id"]
    known = int(node) if isinstance(node, str) and node.isdecimal() else Unknown(f"no {META}")
    strays = tuple(sorted(str(one) for one in path.glob("*-stray")))
    running = running_broker(path) is not None
    return NamedFolder(path, known, meta["directory.id"], strays, running)


def _path(address: str) -> Path:
    path = Path(address.removeprefix(LOG)).absolute()
    if not address.startswith(LOG) or not path.is_dir():
        raise UsageError(f"{address!r} names no folder: write log: and a folder of log.dirs.")
    return path


def _has_data(path: Path) -> bool:
    """Whether a log folder has replicas, apart from the metadata log and from those set aside."""
    aside = (METADATA_FOLDER, "-stray", "-delete", "-future")
    return any(
        not one.name.endswith(aside) and any(one.glob("*.log"))
        for one in path.iterdir()
        if one.is_dir()
    )


def _require_one_cluster(copies: Sequence[MetadataCopy], folders: Sequence[BrokerFolder]) -> None:
    ids: dict[str, Path] = {}
    for copy in copies:
        if isinstance(copy.cluster_id, str):
            ids.setdefault(copy.cluster_id, copy.path)
    for folder in folders:
        if folder.cluster_id:
            ids.setdefault(folder.cluster_id, folder.path)
    if len(ids) > 1:
        named = ", ".join(f"{path} of {cluster}" for cluster, path in ids.items())
        raise WrongCluster(f"the folders are of {len(ids)} clusters: {named}; name those of one.")
