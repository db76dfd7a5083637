"""Writes the promoted folder of a plan: the chosen copy, and what is appended to it.

The folder is new. It gets another name while it is written, is read again as any copy is, and gets
its own name last; no folder of a node is ever written to.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Any, ClassVar

from breakglass.services.errors import EvidenceChanged, StorageError, UsageError
from breakglass.services.guard.act import (
    Act,
    ActStep,
    Change,
    Ending,
    Front,
    Frozen,
    Means,
    announced,
)
from breakglass.services.guard.consent import ConsentPhrase
from breakglass.services.guard.journal import StepName
from breakglass.services.model import TopicPartition
from breakglass.services.quorum.comparison import Relation, compare_copies
from breakglass.services.quorum.image import replay
from breakglass.services.quorum.machine_steps import meta_lines
from breakglass.services.quorum.metadata_copy import (
    METADATA_FOLDER,
    QUORUM_STATE,
    MetadataCopy,
    VoterSet,
    read_copy,
)
from breakglass.services.quorum.plan import Ask, QuorumPlan, look, plan_of, read_request
from breakglass.services.quorum.records import encode_batch, encode_control, encode_record
from breakglass.services.record_batches import ControlType
from breakglass.services.recovery.rescue.broker_folder import (
    EPOCHS,
    META,
    METADATA_LOG,
    PARTITION_METADATA,
)
from breakglass.services.regular_file import open_regular
from breakglass.services.rights import make_folder, make_folders, open_new, sync_folder
from breakglass.services.topic_backup.folder import storage_errors

IN_BATCH = 5_000
COPIED_AT_ONCE = 1024 * 1024
METADATA_TOPIC_ID = "AAAAAAAAAAAAAAAAAAAAAQ"
NO_DIRECTORY = "AAAAAAAAAAAAAAAAAAAAAA"
MAX_KRAFT_VERSION = 1


@dataclass(frozen=True, slots=True)
class PrepareQuorum(Act[QuorumPlan]):
    """Write the folder that the plan in *file* promotes to *out*, which must not exist."""

    doing: ClassVar[str] = "preparing a folder for the new voter"
    changes: ClassVar[str] = "this machine"
    file: Path
    out: Path
    ask: Ask = lambda *_: ()

    def freeze(self, front: Front) -> Frozen[QuorumPlan]:  # noqa: ARG002
        request, document = read_request(self.file)
        plan = plan_of(look(request.sources, request.copy, lambda: None, self.ask), request)
        now = plan.document()
        if now["digest"] != document["digest"]:
            before, after = document["inputs"], now["inputs"]
            changed = {
                *(one["path"] for one in before if one not in after),
                *(one["path"] for one in after if one not in before),
            }
            named = ", ".join(sorted(changed)) or "what is decided"
            raise EvidenceChanged(f"Changed since the plan was made: {named}. Make it again.")
        out = self.out.absolute()
        if out.exists():
            raise UsageError(f"--out {out} exists: name a folder that does not.")
        for source in request.sources:
            if out.is_relative_to(source.removeprefix("log:")):
                raise UsageError(f"--out {out} is in a node's folder: name one outside of it.")
        return Frozen(
            plan.cluster_id,
            tuple(ConsentPhrase(phrase, why) for phrase, why in plan.phrases),
            (
                ("Copy", f"{plan.copy.path}, log end {plan.copy.end.offset:,}"),
                ("Voter", f"{plan.request.voter}, at epochs after {plan.epoch:,}"),
                ("Out", str(out)),
                ("Loses", plan.loss),
            ),
            (str(_METADATA),),
            plan.unknown,
            plan,
            source=document["digest"],
        )

    def look_again(
        self, front: Front, agreed: Frozen[QuorumPlan]
    ) -> tuple[Frozen[QuorumPlan], tuple[Change, ...]]:
        front.tell(ActStep("reading every folder a second time"))
        return Act.look_again(self, front, agreed)

    def carry_out(self, front: Front, means: Means, frozen: Frozen[QuorumPlan]) -> Ending:
        """Write the folder; the ending's value is the plan."""
        plan, out = frozen.plan, self.out.absolute()
        items = {_METADATA: {"out": str(out), "digest": frozen.source, "copy": str(plan.copy.path)}}
        with announced(means.journal, StepName.PREPARE_QUORUM, items, front.tell):
            write_promoted(plan, out)
        return Ending(value=plan)


_METADATA = TopicPartition(METADATA_LOG, 0)


def write_promoted(plan: QuorumPlan, out: Path) -> None:
    """Write the promoted folder of *plan* to *out*, and read it again.

    Raises:
        StorageError: it cannot be written, or is not what was to be written.
        MalformedMessage: a file of the copy changed.
    """
    unnamed = out.with_name(f".{out.name}.partial")
    try:
        with storage_errors(str(out)):
            make_folders(out.parent)
            shutil.rmtree(unnamed, ignore_errors=True)
            log = unnamed / METADATA_FOLDER
            make_folder(unnamed)
            make_folder(log)
            _write_log(plan, log)
            for folder, name, text in _small_files(plan, unnamed):
                _write(folder / name, [text.encode()])
            sync_folder(log)
            sync_folder(unnamed)
        _verify(plan, read_copy(log))
        with storage_errors(str(out)):
            unnamed.rename(out)
            sync_folder(out.parent)
    except BaseException:
        shutil.rmtree(unnamed, ignore_errors=True)
        raise


def appended(plan: QuorumPlan) -> Iterator[tuple[int, bytes]]:
    """The batches to append: the number of records and the bytes of each."""
    offset, now = plan.copy.end.offset, plan.request.made_at_ms
    if plan.dynamic:
        voter = plan.request.voter
        one = {
            "voter_id": voter.node,
            "voter_directory_id": voter.directory_id,
            "endpoints": [{"name": voter.listener, "host": voter.host, "port": voter.port}],
            "k_raft_version_feature": {
                "min_supported_version": 0,
                "max_supported_version": MAX_KRAFT_VERSION,
            },
        }
        record = encode_control(ControlType.KRAFT_VOTERS, "VotersRecord", voters=[one])
        yield 1, encode_batch(offset, plan.epoch, [record], now, control=True)
        offset += 1
    records = [encode_record(name, version, **fields) for name, version, fields in plan.records()]
    for start in range(0, len(records), IN_BATCH):
        some = records[start : start + IN_BATCH]
        yield len(some), encode_batch(offset, plan.epoch, some, now)
        offset += len(some)


def _write_log(plan: QuorumPlan, log: Path) -> None:
    """Copy what the plan's copy has, and append to it. `_verify` checks every CRC."""
    copy, end = plan.copy, plan.copy.end.offset
    for snapshot in copy.usable_snapshots:
        if snapshot.offset <= end:
            with open_regular(snapshot.path) as source:
                _write(log / snapshot.path.name, iter(partial(source.read, COPIED_AT_ONCE), b""))
    name = f"{end:020}.log"
    if len(copy.batches) and copy.batches.ends[-1] == end:
        batches = copy.batches.scan(copy.log_start, end)
        for name, found in groupby(batches, key=lambda one: one[0].name):
            _write(log / name, (content for _, _, content in found))
    _write(log / name, (content for _, content in appended(plan)), "ab")


def _small_files(plan: QuorumPlan, folder: Path) -> Iterator[tuple[Path, str, str]]:
    """The files other than segments and snapshots, each with its folder and its name."""
    log, voter = folder / METADATA_FOLDER, plan.request.voter
    state: dict[str, Any] = {"leaderId": -1, "leaderEpoch": plan.epoch, "votedId": -1}
    if plan.dynamic:
        state |= {"votedDirectoryId": NO_DIRECTORY, "data_version": 1}
    else:
        state |= {"clusterId": "", "appliedOffset": 0, "currentVoters": [], "data_version": 0}
    yield log, QUORUM_STATE, json.dumps(state, separators=(",", ":"))
    yield log, PARTITION_METADATA, f"version: 0\ntopic_id: {METADATA_TOPIC_ID}\n"
    epochs: dict[int, int] = {}
    batches = plan.copy.batches
    if len(batches) and batches.ends[-1] == plan.copy.end.offset:
        for epoch, start in zip(batches.epochs, batches.starts, strict=True):
            epochs.setdefault(epoch, start)
    epochs[plan.epoch] = plan.copy.end.offset
    lines = ["0", str(len(epochs)), *(f"{epoch} {start}" for epoch, start in epochs.items())]
    yield log, EPOCHS, "\n".join(lines) + "\n"
    properties = meta_lines(plan.cluster_id, voter.node, voter.directory_id)
    yield folder, META, "\n".join(properties) + "\n"


def _verify(plan: QuorumPlan, written: MetadataCopy) -> None:
    """Return if *written* has all of the plan's copy, then what is appended, and nothing else.

    Raises:
        StorageError: it differs.
    """
    source, voter = plan.copy, plan.request.voter
    counts = [count for count, _ in appended(plan)]
    problems = [str(damage) for damage in written.damage]
    if (written.end.epoch, written.end.offset) != (plan.epoch, source.end.offset + sum(counts)):
        problems.append(f"it ends at {written.end.offset:,} of epoch {written.end.epoch}")
    first, second = compare_copies([written, source])
    if first.copy is not written or second.relation is not Relation.PREFIX:
        problems.append("it does not begin with the chosen copy")
    elif second.shared != source.end.offset:
        problems.append(f"it has the chosen copy up to offset {second.shared:,} only")
    if plan.dynamic and written.voters != VoterSet(True, (voter.node,)):
        problems.append(f"its voters are {written.voters}")
    if (written.node, written.quorum_epoch) != (voter.node, plan.epoch):
        problems.append("its node or its epoch is another")
    if not problems:
        values = replay([written], written.end.offset).values
        wanted = {("producer ids",): plan.next_producer_id} | {
            ("partition", one.topic_id, one.partition.partition): one.after
            for one in plan.mending.partitions
        }
        if any(values.get(key) != value for key, value in wanted.items()):
            problems.append("its records are not those that were to be appended")
    if problems:
        raise StorageError(f"The folder is not what was written: {problems[0]}. Check the disk.")


def _write(path: Path, contents: Iterable[bytes], mode: str = "xb") -> None:
    """Write or append *contents*, and wait until they are on disk."""
    with open(path, mode, opener=open_new) as file:
        file.writelines(contents)
        file.flush()
        os.fsync(file.fileno())
