"""Saves what electing the recommended replicas would cut off, without electing anybody.

It reads from brokers and writes local files: a read-only session may do it too.

Brokers that are down: which are gone, and what one would lose if it started now.
That is seen in its log folders on this machine. Folders, rescues and the cluster are only read: a
read-only session may do it too.
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from textual import on
from textual.binding import Binding, BindingType
from textual.message import Message
from typing_extensions import override

from breakglass.screens.context import Context
from breakglass.screens.refreshing import found_or_why, in_thread
from breakglass.screens.widgets.dialog import Field, Prompt
from breakglass.screens.widgets.replica_table import Line, TextPage, reason_lines
from breakglass.services.errors import Refused
from breakglass.services.incident.incident import Incident
from breakglass.services.model import TopicPartition, Unknown
from breakglass.services.recovery.remembered.store import ReplicaMemory
from breakglass.services.words.figures import brokers_in, partitions_text
from breakglass.themes.roles import Role, Words

if TYPE_CHECKING:
    from breakglass.services.recovery.rescue.return_check import ReturnCheck
    from breakglass.services.recovery.rescue.spans import AtRisk, RescuedPartition, RescueProgress


class RescueMoved(Message):
    """A rescue has copied more."""

    def __init__(self, progress: RescueProgress) -> None:
        super().__init__()
        self.progress = progress

    def can_replace(self, message: Message) -> bool:
        return isinstance(message, RescueMoved)


@dataclass(frozen=True, slots=True)
class Prepared:
    """What is to be saved."""

    at_risk: tuple[AtRisk, ...]
    """Partitions of which electing the recommended replica cuts something off."""
    offsets: int
    """To be copied at most."""
    brokers: tuple[int, ...]
    """They are read."""
    without: int
    """Partitions that lose nothing, or have nobody to be elected."""
    folder: Path
    nothing: str
    """Said where there is nothing to be saved."""
    remarks: tuple[str, ...] = ()
    """What is not saved, or is to be known besides."""

    @classmethod
    def of(
        cls,
        elected: Sequence[AtRisk],
        without: int,
        folder: Path,
        *,
        nothing: str,
        remarks: tuple[str, ...] = (),
    ) -> Prepared:
        """What leaders would cut off; takes a while for many, and reads nothing."""
        from breakglass.services.recovery.rescue.rescue import divide

        shares, unclear = divide(elected)
        losing = {*shares, *unclear}
        endangered = tuple([one for one in elected if one.partition in losing])
        held = [share for together in shares.values() for share in together]
        return cls(
            endangered,
            sum(share.offsets for share in held),
            tuple(sorted({share.replica.broker for share in held})),
            without + len(elected) - len(endangered),
            folder,
            nothing,
            remarks,
        )

    @property
    def partitions(self) -> int:
        return len(self.at_risk)


MOST_LISTED = 200
"""Partitions named one by one."""


class RescueScreen(TextPage):
    """Enter begins, Esc stops and then goes back."""

    TITLE = "Rescue"
    ABOUT = (
        "Copies records into backups on this machine: those that electing the recommended "
        "replicas would cut off. It changes nothing on the cluster and needs no --write. An "
        "election does the same before it begins."
    )
    COPIED = "what was rescued"
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

    def on_mount(self) -> None:
        incident = self.context.known.incident
        if incident is not None:
            in_thread(self, "rescue", partial(self._prepare, incident), self._is_prepared)

    def show_known(self) -> None:
        self.draw()

    @override
    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Enter begins once, and only where there is something to be saved."""
        return True if action != "begin" or self._may_begin else None

    @property
    def _may_begin(self) -> bool:
        ready = self._prepared is not None and self._prepared.partitions > 0
        return ready and not self._copying and self._results is None

    def action_begin(self) -> None:
        prepared, incident = self._prepared, self.context.known.incident
        if prepared is not None and incident is not None and self._may_begin:
            self._copying = True
            rescue = partial(self._rescue, prepared, incident.snapshot.cluster_id)
            in_thread(self, "rescue", rescue, self._finished)
            self.draw()

    def action_leave(self) -> None:
        if self._copying:
            self._halted.set()
            self.draw()
        else:
            self.dismiss()

    def _is_prepared(self, prepared: Prepared) -> None:
        self._prepared = prepared
        self.draw()

    @on(RescueMoved)
    def _moved(self, message: RescueMoved) -> None:
        self._progress = message.progress
        self.draw()

    def _finished(self, results: Sequence[RescuedPartition]) -> None:
        self._copying, self._results = False, tuple(results)
        self.draw()

    def _prepare(self, incident: Incident) -> Prepared:
        """In a thread."""
        from breakglass.services.recovery.guarded.rescue_choice import default_folder
        from breakglass.services.recovery.rescue.rescue import new_folder

        to = default_folder(self.context.state_folder)
        return self.prepared(incident, new_folder(to, incident.snapshot.cluster_id))

    def prepared(self, incident: Incident, folder: Path) -> Prepared:
        """In a thread: what is to be saved into *folder*."""
        return prepare(incident, self._partitions, folder)

    def most_bytes(self) -> int | None:
        """About how many bytes are saved, of each log the newest records first; None: all."""
        return None

    def _rescue(self, prepared: Prepared, cluster_id: str) -> Sequence[RescuedPartition]:
        """In a thread: never raises for a broker, a disk or a partition."""
        from breakglass.services.recovery.rescue.rescue import rescuer

        def tell(progress: RescueProgress) -> None:
            self.post_message(RescueMoved(progress))

        rescuing = rescuer(self.context.access, cluster_id, self._stopped)
        rescuing = replace(rescuing, progress=tell, most_bytes=self.most_bytes())
        return rescuing.rescue(prepared.at_risk, prepared.folder)

    def _stopped(self) -> bool:
        return self._halted.is_set() or self.context.stopping.is_set()

    def draw(self) -> None:
        self.refresh_bindings()
        super().draw()

    def lines(self, width: int) -> Iterator[Line]:
        prepared = self._prepared
        if prepared is None:
            yield (Words(" Working out what would be cut off.", Role.RUNNING),)
            return
        yield from _heading(prepared, width)
        if self._results is not None:
            yield from _results(self._results, width)
        elif self._copying:
            yield from _progress(self._progress, stopping=self._halted.is_set())
        elif prepared.partitions:
            yield (Words(" Enter begins. Esc goes back.", Role.KEY),)


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
    yield (Words(f" To be saved: {what}, from {brokers}", Role.HEADING),)
    told = [f"into {prepared.folder}"]
    if prepared.without:
        told.append(f"{prepared.without:,} of those asked for lose nothing, or elect nobody")
    told += prepared.remarks
    yield from reason_lines(told, width)
    yield ()


def _progress(progress: RescueProgress | None, *, stopping: bool) -> Iterator[Line]:
    copied, most = (0, 0) if progress is None else (progress.copied, progress.at_most)
    doing = "Stopping" if stopping else "Copying"
    yield (Words(f" {doing}: {copied:,} of {most:,}", Role.RUNNING),)
    if not stopping:
        yield (Words(" Esc stops; partitions already saved are kept.", Role.MUTED),)


def _results(results: Sequence[RescuedPartition], width: int) -> Iterator[Line]:
    missed = [result for result in results if not result.whole]
    records = sum(result.records for result in results)
    whole = len(results) - len(missed)
    role = Role.VERIFIED if not missed else Role.FAILED
    done = f" Saved {records:,} records; whole: {whole:,} of {len(results):,} partitions"
    yield (Words(done, role),)
    for result in missed[:MOST_LISTED]:
        yield from reason_lines([f"{result.partition} is not whole: {result.reason}"], width)
    for result in [result for result in results if result.saved][:MOST_LISTED]:
        for saved in result.saved:
            told = (
                f"{result.partition}: {saved.records:,} records of b{saved.broker} in {saved.path}"
            )
            yield from reason_lines([told], width)
    if len(results) > MOST_LISTED:
        yield (Words(f" Only {MOST_LISTED} are listed; the folder has all.", Role.MUTED),)


class BeforeReturnScreen(RescueScreen):
    """Enter begins, Esc stops and then goes back."""

    TITLE = "Rescue before a return"
    ABOUT = (
        "Copies into backups on this machine what other replicas hold of offline partitions and "
        "a broker is not proved to hold: once started, it leads, and that is cut off. It changes "
        "nothing on the cluster and needs no --write."
    )

    def __init__(self, context: Context, broker: int) -> None:
        super().__init__(context, ())
        self._broker = broker

    def most_bytes(self) -> int | None:
        from breakglass.services.recovery.rescue.rescue import BEFORE_RETURN_BYTES

        return BEFORE_RETURN_BYTES

    def prepared(self, incident: Incident, folder: Path) -> Prepared:
        from breakglass.services.recovery.rescue.spans import at_risk_of_return

        broker = self._broker
        evidence = [judged.evidence for judged in incident.assessments()]
        at_risk = [risk for one in evidence if (risk := at_risk_of_return(one, broker)) is not None]
        return Prepared.of(
            at_risk,
            0,
            folder,
            nothing=f"b{broker} cuts nothing that was read of other replicas when it returns.",
            remarks=(*_remarks(incident, broker), "Y copies the command, for another terminal"),
        )


def _remarks(incident: Incident, broker: int) -> Iterator[str]:
    """What no rescue from brokers saves, and what else speaks against the start."""
    from breakglass.services.recovery.rescue.spans import at_risk_of_return, harm_of, unread_beside

    evidence = [judged.evidence for judged in incident.assessments()]
    passed = incident.circumstances.copy_first.get(broker)
    harm = harm_of(evidence, broker)
    if harm:
        yield f"keep b{broker} down: {harm}"
    if passed is not None:
        yield passed.advice
    elif led := incident.snapshot.led_without(broker):
        plural = "s" * (led != 1)
        yield (
            f"{led:,} other partition{plural} of b{broker} are led without it: its start cuts what "
            "it alone has of them"
        )
    others = sum(at_risk_of_return(one, broker) is None for one in evidence)
    if others:
        yield (
            f"{others:,} other offline partition{'s' * (others != 1)}: b{broker} would not lead "
            "there, or cuts nothing that was read"
        )
    unread = len(incident.rows) - len(evidence)
    if unread:
        yield f"{unread:,} offline partitions are not read yet: nothing of them is saved"
    beside = sorted({other for one in evidence for other in unread_beside(one, broker)})
    for other in beside:
        yield f"b{other} could not be read: what it alone holds is not saved, and may be cut"


ABOUT = (
    "Each folder of its log.dirs, as this machine has them: mounted, or copied. Separate them by "
    "commas. Breakglass only reads them."
)


class GonePrompt(Prompt):
    """Begins with those declared *gone* so far, and offers those that are *silent*.

    A broker that is not registered may be named.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        *Prompt.BINDINGS,
        Binding("tab", "fill", "Those that do not answer", priority=True),
    ]

    def __init__(self, gone: Collection[int], silent: Collection[int]) -> None:
        self._silent = " ".join(map(str, silent))
        offered = f" Brokers that do not answer: {self._silent}." if silent else ""
        super().__init__(
            "Which brokers will never come back with their data?",
            about="Broker ids, separated by blanks or commas. Breakglass stops waiting for these "
            "brokers and does not propose to start them. This changes the verdicts, not the "
            f"cluster; an empty line undoes it.{offered}",
            value=" ".join(map(str, gone)),
            fault=fault_in,
        )

    def action_fill(self) -> None:
        self.query_one(Field).value = self._silent


def fault_in(text: str) -> str:
    """Why *text* names no brokers; empty if it does, or is empty."""
    try:
        brokers_in(text)
    except ValueError:
        return "Name brokers by their ids: 4 7."
    return ""


def folders_prompt(given: str) -> Prompt:
    """Begins with what was *given* the last time."""

    def fault(text: str) -> str:
        return "" if folders_in(text) else "Name a folder: /mnt/b3/kafka-logs"

    return Prompt("Log folders of the broker that is down", about=ABOUT, value=given, fault=fault)


def folders_in(text: str) -> tuple[str, ...]:
    """The folders of *text*; `log:` before a folder may be left out."""
    named = (part.strip().removeprefix("log:") for part in text.split(","))
    return tuple(name for name in named if name)


class DeadBrokerScreen(TextPage):
    """Reads at once; Esc ends the reading and goes back."""

    TITLE = "Return"
    ABOUT = (
        "Whether a dead broker may be started: which records and transaction markers it would cut "
        "off under the current leaders, and whether a rescue has them. It changes nothing on the "
        "cluster or on the disk."
    )
    COPIED = "what its start would lose"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("y", "copy", "copy", tooltip="Copy this text"),
        Binding("escape", "leave", "back", tooltip="Go back"),
    ]

    def __init__(self, context: Context, folders: Sequence[str]) -> None:
        super().__init__(context)
        self._folders = tuple(folders)
        self._check: ReturnCheck | Unknown | None = None
        self._left = threading.Event()

    def on_mount(self) -> None:
        read = partial(found_or_why, self._read, "the folders cannot be read")
        in_thread(self, "return", read, self._checked)
        self.draw()

    def show_known(self) -> None:
        """Stays as it was read: Esc and the same folders read again."""

    def action_leave(self) -> None:
        self._left.set()
        self.dismiss()

    def _checked(self, check: ReturnCheck | Unknown) -> None:
        self._check = check
        self.draw()

    def _read(self) -> ReturnCheck:
        """In a thread."""
        from breakglass.services.recovery.guarded.rescue_choice import all_folders
        from breakglass.services.recovery.rescue.broker_folder import LOG, open_log_folder
        from breakglass.services.recovery.rescue.return_check import NamedDisks, check_return

        folders = [open_log_folder(f"{LOG}{folder}") for folder in self._folders]
        cluster_id, state = folders[0].cluster_id or "", self.context.state_folder
        rescues, memory = all_folders(cluster_id, state), ReplicaMemory(cluster_id, state)
        with self.context.reading() as client:
            return check_return(client, NamedDisks(folders), rescues, self._go_on, memory)

    def _go_on(self) -> None:
        if self._left.is_set() or self.context.stopping.is_set():
            raise Refused("stopped on request")

    def lines(self, width: int) -> Iterator[Line]:
        if self._check is None:
            yield (Words(" Reading the folders and the leaders.", Role.RUNNING),)
        elif isinstance(self._check, Unknown):
            yield from reason_lines([self._check.reason], width)
        else:
            yield from return_lines(self._check, width)


def return_lines(check: ReturnCheck, width: int) -> Iterator[Line]:
    """What to show of *check*, in *width* cells."""
    role = Role.VERIFIED if check.safe else Role.LOST
    verdict = "is safe to start, if what follows holds" if check.safe else "is NOT safe to start"
    yield (Words(f" b{check.broker} {verdict}", role),)
    for folder in check.folders:
        read = f"{folder.path}: {partitions_text(len(folder.replicas))}"
        yield from reason_lines([read, *(f"passed over: {name}" for name in folder.aside)], width)
    yield ()
    yield from reason_lines(check.sentences, width)
