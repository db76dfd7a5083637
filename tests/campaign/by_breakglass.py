"""The operator who does what Breakglass says: unattended, until nothing is left that can be done.

One round: `triage`, whose actions on brokers are done first (stop what is empty, start what can be
started, declare gone what cannot), then elections by the way of the incident. What only an operator
decides is decided by `plan edit`: for the replica that is recommended, at a fork for the one that
loses least.
"""

from __future__ import annotations

import json
import re
import time
from collections import Counter
from collections.abc import Collection, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from breakglass.bookkeeping.judge import SaidPartition, elected, judged, read_rescues
from breakglass.bookkeeping.log_files import DiskReading, Name
from breakglass.services.errors import LabError
from breakglass.services.lab.controller_link import ControllerLink
from breakglass.services.lab.incidents.incident import Happening, Way
from breakglass.services.lab.incidents.wreck import Wreck
from breakglass.services.lab.proxy import Proxy
from breakglass.services.lab.topics import reassign
from breakglass.services.model import TopicPartition
from tests.campaign.commands import Ran, Shell
from tests.campaign.sentences import TriageFacts
from tests.lab.asking import reassign_code

MOST_ROUNDS = 8
COORDINATORS = ("__transaction_state", "__consumer_offsets")
"""The transactions of a restore need both: progress is committed for a group."""
COPY, CHECK = "copy first", "check first"
BRINGING = ("start", COPY, CHECK, "reconnect", "await")
FOLLOWS = "b{} is out of sync in"
"""How a triage says that a start is not free though it is advised."""
DURATION_MS = 4000
"""Brokers that hang answer never; those that are well answer within it on a busy machine."""
PATIENCE_SECONDS = 8.0
SLOW_SECONDS = 0.15
AGAIN = re.compile(r"run (this )?again")
FIRST = re.compile(r"let b(\d+) return first")
LEFT_OPEN, TIMES_OUT = (
    "end it with breakglass after transactions finish",
    "its producer or its timeout ends it",
)
OLD_ORDER = re.compile(r"reassign it to (\[[\d, ]+\])")
ELECTED_LINE = re.compile(r"^(\S+)-(\d+)\s+elected", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Round:
    """One triage, beside what the disks held then."""

    disks: DiskReading
    said: tuple[SaidPartition, ...]
    gone: frozenset[int]
    """Brokers that were declared gone."""
    text: str
    """The sentences."""
    facts: TriageFacts
    """What was so then."""


@dataclass
class Operator:
    """One recovery under way."""

    wreck: Wreck
    shell: Shell
    gone: set[int] = field(default_factory=set)
    started: set[int] = field(default_factory=set)
    """Brokers that were started, or resumed, because Breakglass said so."""
    stopped: set[int] = field(default_factory=set)
    cancelled: set[Name] = field(default_factory=set)
    """Partitions whose reassignment was cancelled, as Breakglass said."""
    elected: set[Name] = field(default_factory=set)
    saved: set[Name] = field(default_factory=set)
    """Partitions of which something was saved before a broker was started."""
    rounds: list[Round] = field(default_factory=list)
    resumed: int = 0
    returned: bool = False
    plans: int = 0
    curable: tuple[int, ...] = ()
    """Brokers that can be brought back by now."""
    warned: str = ""
    """What the last triage said on stderr."""
    looking: float = 0.0
    """Seconds that the bookkeeper took, not the operator."""

    def recover(self) -> None:
        """Until nothing is offline, or nothing more can be done."""
        for number in range(MOST_ROUNDS):
            found = self._triage()
            if not found.said:
                return
            acted = self._act_on_brokers(found)
            if not self.wreck.awake:
                return
            if acted and number < MOST_ROUNDS - 1:
                continue
            if self.wreck.incident.midway:
                self.shell.amid = self._return_unasked
            else:
                acted = self._return_unasked() or acted
            before = self.wreck.offline()
            self._elect(found)
            if self.wreck.offline() >= before and not acted:
                return

    def recover_first(self) -> None:
        """Elect the partitions of some topics, while nobody starts a broker."""
        path = self.shell.folder / "first.json"
        words = ("--recovery-duration-ms", DURATION_MS)
        down = [node.id for node in self.wreck.cluster.brokers if node.id not in self.wreck.awake]
        gone = [word for broker in down for word in ("--gone", broker)]
        topics = [word for name in self.wreck.incident.first for word in ("--topics", name)]
        self.shell.breakglass("plan", "make", "--out", path, *topics, *words, *gone)
        if path.exists():
            ran = self.shell.agreeing("recover", "--plan", path, "--json", *words, *gone)
            self.elected |= set(elected(ran.document))
            self._take_up(ran)

    def put_back(self, names: Collection[Name]) -> list[Ran]:
        """Give these partitions what was saved of them, each record once."""
        # Without its coordinator a transaction cannot begin, and nobody can elect one.
        lost = any(topic in COORDINATORS for topic, _ in self.wreck.offline())
        without = ("--no-transactions",) if lost else ()
        ran = []
        for folder in rescue_folders(self.shell.state / "rescue"):
            here = read_rescues(folder).keys() & set(names)
            if here:
                states = self.wreck.partitions()
                leaders = {name: states[name].leader for name in sorted(here) if name in states}
                path = self.shell.folder / f"put-back-{folder.name}.json"
                write_bare(
                    path, {name: leader for name, leader in leaders.items() if leader is not None}
                )
                words = ("--tail-of", path, "--from", folder)
                state = ("--state", self.shell.folder / "restore", "--json")
                ran.append(self._restore(*words, *state, *without))
        return ran

    def _restore(self, *words: object) -> Ran:
        """Restore, and again after what the restore asks for is done."""
        ran = self._restored(*words)
        if LEFT_OPEN in ran.err:
            self.shell.agreeing("after", "transactions", "finish", "--abort")
            ran = self._restored(*words)
        if TIMES_OUT in ran.err:
            # The book's transactions time out after the judge has come.
            words = (*words, "--no-verify")
            ran = self._restored(*words)
        if ran.code and AGAIN.search(ran.err):
            ran = self._restored(*words, *(("--resume",) if "--resume" in ran.err else ()))
        return ran

    def _restored(self, *words: object) -> Ran:
        """Restore, and again where the command was killed."""
        ran = self.shell.agreeing("backup", "restore", *words)
        self.resumed += ran.killed
        return self.shell.agreeing("backup", "restore", *words) if ran.killed else ran

    def _triage(self) -> Round:
        began = time.monotonic()
        self.wreck.settle()
        disks, states = self.wreck.read(), self.wreck.partitions()
        self.looking += time.monotonic() - began
        ran = self.shell.breakglass(
            *("triage", "--json", "--recovery-duration-ms", DURATION_MS), *self._gone_words()
        )
        self.warned = ran.err
        said = tuple(judged(ran.document))
        offline = [name for name, state in states.items() if state.offline]
        out = Counter(
            broker
            for state in states.values()
            for broker in state.assignment
            if not state.offline and broker not in state.isr
        )
        text = f"{ran.document.get('headline', '')}\n{ran.err}"
        found = Round(
            disks, said, frozenset(self.gone), text, TriageFacts(offline, disks, said, out)
        )
        self.rounds.append(found)
        return found

    def _gone_words(self) -> list[object]:
        return [word for broker in sorted(self.gone) for word in ("--gone", broker)]

    def _act_on_brokers(self, found: Round) -> bool:
        """Stop, start or reconnect what the triage names; whether anything was to do.

        What is to be stopped NOW comes first, as the headline says.
        """
        acted = False
        for partition in sorted(found.said, key=lambda said: said.verb != "stop NOW"):
            broker = partition.broker
            if partition.verb == "stop NOW" and broker is not None and broker not in self.stopped:
                self._stop(broker)
                acted = True
            elif partition.verb == "reassignment":
                acted = self._cancel(partition.name) or acted
            elif partition.verb in BRINGING and broker is not None:
                acted = self._bring(partition.verb, broker, partition.name) or acted
        return acted

    def _stop(self, broker: int) -> None:
        self.wreck.cluster.broker(broker).kill()
        # Where it was the last that ran, nobody can be asked: the next is started, as is said.
        if self.wreck.awake:
            self.wreck.cluster.wait_fenced(broker)
        self.stopped.add(broker)
        self.gone.add(broker)

    def _bring(self, verb: str, broker: int, name: Name) -> bool:
        """Start, resume or reconnect a broker that can be; declare gone one that cannot."""
        if broker in self.gone:
            return False
        if verb == "await" and broker not in self.started:
            # The controller is to elect it by itself: wait for that once.
            self.started.add(broker)
            give_up = time.monotonic() + PATIENCE_SECONDS
            while name in self.wreck.offline() and time.monotonic() < give_up:
                time.sleep(0.2)
            return True
        curable = broker in self.curable and broker not in self.started
        if not curable or (verb in ("start", COPY, CHECK) and self._disk_was_replaced(broker)):
            self.gone.add(broker)
            return True
        if verb in (COPY, CHECK) or FOLLOWS.format(broker) in self.warned:
            self._check(broker, verb)
        first = [
            other
            for other in self._rescue_before(broker)
            if other in self.curable
            and other not in self.started | self.gone
            and not self._disk_was_replaced(other)
        ]
        for other in first:
            self.started.add(other)
            self._check(other, CHECK)
            self._rescue_before(other)
            self._cure(other)
        if not first:
            self.started.add(broker)
            self._cure(broker)
        return True

    def _check(self, broker: int, verb: str) -> None:
        """What the start of *broker* would cut of its own log, and a rescue of that."""
        node = self.wreck.cluster.broker(broker)
        sources = [word for path in node.layout.log_dirs for word in ("--source", f"log:{path}")]
        words = (*sources, "--json", *(("--while-running",) if node.running else ()))
        if self.shell.breakglass("can-start", *words).code or (verb == COPY):
            self.shell.breakglass("rescue", *words)

    def _disk_was_replaced(self, broker: int) -> bool:
        """Whether *broker* is not to be started: its disk is not as it was when it led."""
        return any(
            step.act is Happening.RETURN_EMPTY and broker in step.brokers
            for step in self.wreck.incident.steps
        )

    def _rescue_before(self, broker: int) -> list[int]:
        """Save what others hold and Breakglass says that this broker cuts when it leads.

        Returns the brokers that it says are to return first.
        """
        duration = ("--recovery-duration-ms", DURATION_MS)
        ran = self.shell.breakglass("rescue", "--before-return", broker, "--json", *duration)
        for partition in ran.document.get("partitions", ()):
            if partition["saved"]:
                self.saved.add((partition["topic"], partition["partition"]))
        if f"check the disk of b{broker} before it starts" in ran.err:
            self._check(broker, CHECK)
        return [int(other) for other in FIRST.findall(ran.err)]

    def _cure(self, broker: int) -> None:
        node = self.wreck.cluster.broker(broker)
        if not node.running:
            node.start()
        elif node.paused:
            node.resume()
        elif node.layout.controller_links:
            ControllerLink(self.wreck.cluster, broker).heal()
        try:
            self.wreck.cluster.wait_unfenced(broker)
        except LabError:
            self.gone.add(broker)

    def _cancel(self, name: Name) -> bool:
        """Take back a reassignment, as a reason of STUCK says."""
        if name in self.cancelled:
            return False
        self.cancelled.add(name)
        # Kafka refuses where no replica that would stay is in sync: the partition stays as it is.
        code, _ = reassign_code(self.wreck.cluster, TopicPartition(*name), None)
        return code == 0

    def _return_unasked(self) -> bool:
        """A broker that nobody waits for starts while commands run; whether one did."""
        broker = self.wreck.incident.returning
        if broker is None or self.returned or broker in self.stopped:
            return False
        self.returned = True
        node = self.wreck.cluster.broker(broker)
        if node.running:
            return False
        node.start()
        return True

    def _elect(self, found: Round) -> None:
        way = self.wreck.incident.way
        if way is Way.DROP_IN:
            ran = self.shell.run(
                "kafka-unclean-recovery",
                *("--automated-recovery", "--all-offline-partitions"),
                *("--recovery-duration-ms", DURATION_MS, *self.shell.bootstrap),
            )
        elif way is Way.AUTOMATED:
            ran = self.shell.agreeing(
                *("unclean-recovery", "--automated-recovery", "--all-offline-partitions"),
                *("--recovery-duration-ms", DURATION_MS, *self._gone_words()),
            )
        else:
            self._by_plan(found)
            return
        self.elected |= {(topic, int(n)) for topic, n in ELECTED_LINE.findall(ran.out)}
        self._take_up(ran)
        if self.wreck.offline():
            self._by_plan(found)

    def _by_plan(self, found: Round) -> None:
        """`plan make`, what automation leaves out decided by hand, `recover`."""
        self.plans += 1
        path = self.shell.folder / f"plan-{self.plans}.json"
        made = self.shell.breakglass(
            *("plan", "make", "--out", path, "--recovery-duration-ms", DURATION_MS),
            *self._gone_words(),
        )
        if path.exists():
            self._decide(path, found)
        elif not self._write_decisions(path, found):
            return
        assert made.code in (0, 1), str(made)
        ran = self.shell.agreeing(
            *("recover", "--plan", path, "--json", "--recovery-duration-ms", DURATION_MS),
            *self._gone_words(),
        )
        self.elected |= set(elected(ran.document))
        self._take_up(ran)

    def _decide(self, path: Path, found: Round) -> None:
        """Designate by hand whom automation leaves out; the next best where one cannot lead."""
        decided = {
            f"{partition.name[0]}-{partition.name[1]}": by_hand(partition)
            for partition in found.said
        }
        decided = {place: brokers for place, brokers in decided.items() if brokers}
        first = [f"{place}={brokers[0]}" for place, brokers in decided.items()]
        if not first or not self._set(path, *first).code:
            return
        for place, brokers in decided.items():
            for broker in brokers:
                if not self._set(path, f"{place}={broker}").code:
                    break

    def _set(self, path: Path, *places: str) -> Ran:
        return self.shell.breakglass("plan", "edit", path, *places, online=False)

    def _write_decisions(self, path: Path, found: Round) -> bool:
        """A file in Kafka's format of what is decided by hand alone."""
        chosen = {partition.name: by_hand(partition) for partition in found.said}
        known_ones = {name: brokers[0] for name, brokers in chosen.items() if brokers}
        if known_ones:
            write_bare(path, known_ones)
        return bool(known_ones)

    def _take_up(self, ran: Ran) -> None:
        """Also where the command itself says that there is something to be taken up."""
        if not ran.killed and "recover resume" not in ran.err:
            return
        self.resumed += ran.killed
        again = self.shell.agreeing(
            *("recover", "resume", "--json", "--recovery-duration-ms", DURATION_MS)
        )
        self.elected |= set(elected(again.document))
        for left in again.document.get("left", ()):
            if told := OLD_ORDER.search(left["reason"]):
                place = TopicPartition(left["topic"], left["partition"])
                reassign(self.wreck.cluster, {place: json.loads(told[1])})


def rescue_folders(root: Path) -> list[Path]:
    """The folders of single rescues, oldest first: each has one for every broker."""
    folders = {path.parents[2] for path in root.rglob("segment_partition_*_records")}
    return sorted(folders)


def by_hand(partition: SaidPartition) -> tuple[int, ...]:
    """Whom the operator elects where automation leaves it, the best first; empty: nobody."""
    if partition.automatable or partition.verdict not in ("FORK", "LOSS", "SAFE"):
        return ()
    return by_loss(partition) if partition.designee is None else (partition.designee,)


def by_loss(partition: SaidPartition) -> tuple[int, ...]:
    """The brokers by how many known records their election loses, the fewest first."""
    priced = [
        (price.total, broker)
        for broker, price in partition.prices.items()
        if price.total is not None
    ]
    return tuple(broker for _, broker in sorted(priced))


def write_bare(path: Path, leaders: dict[Name, int]) -> None:
    """A file of elections in Kafka's format."""
    entries = [
        {"topic": topic, "partition": number, "designatedLeader": broker}
        for (topic, number), broker in leaders.items()
    ]
    path.write_text(json.dumps({"partitions": entries}), encoding="utf-8")


def bootstrap_of(wreck: Wreck) -> str:
    """The option that names the cluster; with one address, that of a broker that runs."""
    servers = wreck.cluster.bootstrap_servers
    if wreck.incident.one_address and wreck.awake:
        servers = str(wreck.cluster.broker(min(wreck.awake)).address())
    return f"--bootstrap-server={servers}"


@contextmanager
def shell_of(wreck: Wreck, folder: Path, kill_at: int | None) -> Iterator[Shell]:
    """A shell on the wreck; brokers with a slow link are reached through it."""
    cluster = wreck.cluster
    with ExitStack() as links:
        words = [bootstrap_of(wreck)]
        for broker in wreck.incident.slow:
            proxy = links.enter_context(Proxy(cluster.broker(broker).address()))
            proxy.delay(SLOW_SECONDS)
            words.append(f"--broker-address={broker}={proxy.address}")
        folder.mkdir(parents=True, exist_ok=True)
        yield Shell(folder, tuple(words), kill_at)
