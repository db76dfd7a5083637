"""What `breakglass quorum inspect` finds in copies of the metadata log and in data folders."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import UUID

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
    topic_id_in,
)

if TYPE_CHECKING:
    from breakglass.services.quorum.status import AnsweringNode
    from breakglass.services.quorum.strays import FoundStray


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
    topic_ids: int = 0
    """How many topic ids the data folders have, those of strays among them."""
    known_ids: Mapping[Path, int] = field(default_factory=dict)
    """How many of them the best copy knows, and the best of those that part where they begin."""
    answering: tuple[AnsweringNode, ...] = ()
    """Nodes that run at the addresses in the chosen copy, if these were asked."""
    renamed: tuple[FoundStray, ...] = ()
    """Folders that brokers renamed to ``-stray``, with records that no other folder has."""

    @property
    def cluster_id(self) -> str | Unknown:
        ids = [one.copy.cluster_id for one in self.copies if isinstance(one.copy.cluster_id, str)]
        return ids[0] if ids else Unknown("no folder has a meta.properties with the cluster id")

    @property
    def formatted(self) -> str:
        """Why a copy may be of controllers that were formatted again; empty if none seems to be."""
        best = self.copies[0].copy.path
        apart = [one.copy.path for one in self.copies if one.apart]
        known = ", ".join(f"{path} {number:,}" for path, number in self.known_ids.items())
        of = f"Of {self.topic_ids:,} topic ids in the data folders, these copies know: {known}."
        if apart:
            return (
                f"{best} and {', '.join(map(str, apart))} differ from their first records on, so "
                f"controllers were formatted again. {of}"
            )
        if self.topic_ids and self.known_ids.get(best) == 0:
            return f"{best} may be of controllers that were formatted again. {of}"
        return ""

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
            and not self.renamed
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
    wanted = None if chosen is None else metadata_folder(_path(chosen))
    on_disk = {one.topic_id for folder in folders for one in folder.replicas}
    on_disk |= {topic_id_in(stray) for path in paths for stray in path.glob("*-stray")}
    topic_ids = {one for one in on_disk if one is not None}
    compared, known = _ranked(copies, topic_ids, wanted)
    choice = compared[0]
    if chosen is not None:
        named = [one for one in compared if one.copy.path == wanted]
        if not named:
            raise UsageError(
                f"--copy {chosen} is not among the folders: name it as an argument as well."
            )
        choice = named[0]
    found_all = _inspected(compared, choice, folders, go_on, all_of_them=chosen is None)
    if not known and isinstance(found_all.state, Mapping):
        known = {compared[0].copy.path: _known(topic_ids, found_all.state, choice.copy)}
    named_folders = tuple(map(_named, paths))
    return replace(found_all, named=named_folders, topic_ids=len(topic_ids), known_ids=known)


def _ranked(
    copies: Sequence[MetadataCopy], topic_ids: Collection[UUID], wanted: Path | None
) -> tuple[tuple[ComparedCopy, ...], dict[Path, int]]:
    """The copies, the best one first, and how many of the *topic_ids* in data folders some know.

    Of copies that part where they begin, some were formatted again, and the number of records does
    not say which. What brokers have on disk does; *wanted*, if any, is of those that were not.
    """
    compared = compare_copies(copies)
    if not any(one.apart or one.relation is Relation.UNCOMPARED for one in compared):
        return compared, {}
    apart = {compared[0].copy.path, *(one.copy.path for one in compared if one.apart)}
    left, origins = list(copies), []
    while left:
        compared = compare_copies(left)
        other = [one.copy for one in compared if one.apart or one.relation is Relation.UNCOMPARED]
        origins.append([one.copy for one in compared if one.copy not in other])
        left = other
    known = {one.path: _known(topic_ids, state_of(one), one) for one, *_ in origins}
    first = origins[0][0]
    tops = [one for one, *_ in origins if one.path in apart or not known[first.path]]
    best = max(tops, key=lambda copy: known[copy.path])
    for top, *others in origins:
        if wanted in {one.path for one in (top, *others)} and {top.path, best.path} <= apart:
            best = top
    return compare_copies(copies, best), known


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


def _known(topic_ids: Collection[UUID], state: Mapping[Key, Any], copy: MetadataCopy) -> int:
    """How many of *topic_ids* are in *state*, or are deleted by *copy*."""
    return len(({key[1] for key in state if key[0] == "topic"} | copy.deleted) & {*topic_ids})


def state_of(copy: MetadataCopy) -> Mapping[Key, Any]:
    """The state of the cluster by *copy* alone; empty if it cannot be read."""
    try:
        return replay([copy], copy.end.offset).values
    except BreakglassError:
        return {}


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
