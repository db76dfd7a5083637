"""Saves what electing the recommended replicas would cut off, without electing anybody.

It reads from brokers and writes local files: a read-only session may do it too.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from textual import on
from textual.binding import Binding, BindingType
from textual.widget import Widget
from typing_extensions import override

from breakglass.screens.context import Context
from breakglass.screens.messages import CopyAsked
from breakglass.screens.offline.messages import (
    Prepared,
    RescueFinished,
    RescueMoved,
    RescuePrepared,
)
from breakglass.screens.page import Page
from breakglass.screens.widgets.replica_table import (
    Line,
    ReplicaTable,
    TablePiece,
    plain_text,
    reason_lines,
)
from breakglass.services.incident.incident import Incident
from breakglass.services.model import TopicPartition
from breakglass.themes.roles import Role

if TYPE_CHECKING:
    from breakglass.services.recovery.rescue.results import RescuedPartition, RescueProgress

COPIED_WIDTH = 200
MOST_LISTED = 200
"""Partitions named one by one."""


class RescueScreen(Page):
    """Enter begins, Esc stops and then goes back."""

    TITLE = "Rescue"
    ABOUT = (
        "Copies records into backups on this machine: those that electing the recommended "
        "replicas would cut off. It changes nothing on the cluster and needs no --write. An "
        "election does the same before it begins."
    )
    CSS = """
    RescueScreen ReplicaTable { height: 1fr; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "begin", "begin", tooltip="Begin to copy"),
        Binding("y", "copy", "copy", tooltip="Copy this text"),
        Binding("escape", "leave", "stop, back", tooltip="Stop the copying, then go back"),
    ]

    def __init__(self, context: Context, partitions: Sequence[TopicPartition]) -> None:
        super().__init__(context)
        self._partitions = tuple(partitions)
        self._prepared: Prepared | None = None
        self._progress: RescueProgress | None = None
        self._results: tuple[RescuedPartition, ...] | None = None
        self._halted = threading.Event()
        self._copying = False

    def body(self) -> Iterator[Widget]:
        yield ReplicaTable()

    def on_mount(self) -> None:
        super().on_mount()
        self.query_one(ReplicaTable).focus()
        incident = self.context.known.incident
        if incident is not None:
            self.run_worker(lambda: self._prepare(incident), group="rescue", thread=True)

    def show_known(self) -> None:
        self._draw()

    @override
    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Enter begins once, and only where there is something to be saved."""
        if action == "begin":
            ready = self._prepared is not None and self._prepared.partitions > 0
            return True if ready and not self._copying and self._results is None else None
        return True

    def action_begin(self) -> None:
        prepared, incident = self._prepared, self.context.known.incident
        if prepared is None or incident is None or self._copying or self._results is not None:
            return
        self._copying = True
        cluster_id = incident.snapshot.cluster_id
        self.run_worker(lambda: self._rescue(prepared, cluster_id), group="rescue", thread=True)
        self._draw()

    def action_leave(self) -> None:
        if self._copying:
            self._halted.set()
            self._draw()
        else:
            self.dismiss()

    def action_copy(self) -> None:
        self.app.post_message(CopyAsked(plain_text(self._told(COPIED_WIDTH)), "what was rescued"))

    @on(RescuePrepared)
    def _is_prepared(self, message: RescuePrepared) -> None:
        self._prepared = message.prepared
        self._draw()

    @on(RescueMoved)
    def _moved(self, message: RescueMoved) -> None:
        self._progress = message.progress
        self._draw()

    @on(RescueFinished)
    def _finished(self, message: RescueFinished) -> None:
        self._copying, self._results = False, tuple(message.results)
        self._draw()

    def _prepare(self, incident: Incident) -> None:
        """In a thread."""
        from breakglass.services.recovery.guarded.rescue_choice import default_folder
        from breakglass.services.recovery.rescue.rescue import new_folder

        to = default_folder(self.context.state_folder)
        folder = new_folder(to, incident.snapshot.cluster_id)
        self.post_message(RescuePrepared(self.prepared(incident, folder)))

    def prepared(self, incident: Incident, folder: Path) -> Prepared:
        """In a thread: what is to be saved into *folder*."""
        return prepare(incident, self._partitions, folder)

    def most_bytes(self) -> int | None:
        """About how many bytes are saved, of each log the newest records first; None: all."""
        return None

    def _rescue(self, prepared: Prepared, cluster_id: str) -> None:
        """In a thread: never raises for a broker, a disk or a partition."""
        from breakglass.services.recovery.guarded.rescuing import rescuer

        def tell(progress: RescueProgress) -> None:
            self.post_message(RescueMoved(progress))

        rescuing = rescuer(self.context.access, cluster_id, self._stopped)
        rescuing = replace(rescuing, progress=tell, most_bytes=self.most_bytes())
        self.post_message(RescueFinished(rescuing.rescue(prepared.at_risk, prepared.folder)))

    def _stopped(self) -> bool:
        return self._halted.is_set() or self.context.stopping.is_set()

    def _draw(self) -> None:
        self.refresh_bindings()
        self.query_one(ReplicaTable).show(self._told, top=False)

    def _told(self, width: int) -> Iterator[Line]:
        prepared = self._prepared
        if prepared is None:
            yield (TablePiece(" Working out what would be cut off.", Role.RUNNING),)
            return
        yield from _heading(prepared, width)
        if self._results is not None:
            yield from _results(self._results, width)
        elif self._copying:
            yield from _progress(self._progress, stopping=self._halted.is_set())
        elif prepared.partitions:
            yield (TablePiece(" Enter begins. Esc goes back.", Role.KEY),)


def prepare(incident: Incident, partitions: Sequence[TopicPartition], folder: Path) -> Prepared:
    """What electing the recommended replicas of *partitions* cuts off; takes a while for many."""
    from breakglass.services.recovery.rescue.spans import AtRisk

    judged = list(incident.assessments(partitions))
    elected = [
        AtRisk(judgement.evidence, judgement.designee)
        for judgement in judged
        if judgement.designee is not None
    ]
    nothing = "Electing the recommended replicas cuts off no records that can be read."
    return Prepared.of(elected, len(partitions) - len(elected), folder, nothing=nothing)


def _heading(prepared: Prepared, width: int) -> Iterator[Line]:
    if not prepared.partitions:
        yield from reason_lines([prepared.nothing, *prepared.remarks], width)
        return
    brokers = ", ".join(f"b{broker}" for broker in prepared.brokers) or "no broker"
    plural = "s" * (prepared.partitions != 1)
    what = f"{prepared.partitions:,} partition{plural}, {prepared.offsets:,} offsets at most"
    yield (TablePiece(f" To be saved: {what}, from {brokers}", Role.HEADING),)
    told = [f"into {prepared.folder}"]
    if prepared.without:
        told.append(f"{prepared.without:,} of those asked for lose nothing, or elect nobody")
    told += prepared.remarks
    yield from reason_lines(told, width)
    yield ()


def _progress(progress: RescueProgress | None, *, stopping: bool) -> Iterator[Line]:
    copied, most = (0, 0) if progress is None else (progress.copied, progress.at_most)
    doing = "Stopping" if stopping else "Copying"
    yield (TablePiece(f" {doing}: {copied:,} of {most:,}", Role.RUNNING),)
    if not stopping:
        yield (TablePiece(" Esc stops; partitions already saved are kept.", Role.MUTED),)


def _results(results: Sequence[RescuedPartition], width: int) -> Iterator[Line]:
    missed = [result for result in results if not result.whole]
    records = sum(result.records for result in results)
    whole = len(results) - len(missed)
    role = Role.VERIFIED if not missed else Role.FAILED
    done = f" Saved {records:,} records; whole: {whole:,} of {len(results):,} partitions"
    yield (TablePiece(done, role),)
    for result in missed[:MOST_LISTED]:
        yield from reason_lines([f"{result.partition} is not whole: {result.reason}"], width)
    for result in [result for result in results if result.saved][:MOST_LISTED]:
        for saved in result.saved:
            told = (
                f"{result.partition}: {saved.records:,} records of b{saved.broker} in {saved.path}"
            )
            yield from reason_lines([told], width)
    if len(results) > MOST_LISTED:
        yield (TablePiece(f" Only {MOST_LISTED} are listed; the folder has all.", Role.MUTED),)
