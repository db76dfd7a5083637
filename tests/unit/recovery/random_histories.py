"""Random lives of one partition, kept record by record: what judgements are held against.

An independent model of what brokers do: leaders append, followers truncate to the leader's
lineage and copy, the controller shrinks ISR and ELR, elects from them, and now and then somebody
elects uncleanly. Brokers die, are cut off, lose disks, or fall silent towards us alone. A `Life`
says what each replica truly holds, and makes the evidence that Breakglass would have read, with
some replicas unread. Nothing of the product counts here: records are sets of (epoch, offset).
"""

from dataclasses import dataclass, field, replace

from hypothesis import strategies as st

from breakglass.services.model import PartitionEvidence, ReplicaLog, Role, Unknown
from tests.unit.recovery.histories import Disk, Record
from tests.unit.recovery.replicas import PLAIN, offline, silent

BROKERS = (1, 2, 3, 4)


@dataclass
class LivedDisk(Disk):
    """One replica on disk, and what its broker knows; its high watermark as it last heard it."""

    up: bool = True
    """The process runs."""
    fenced: bool = False
    knows_epoch: int = 0
    """The leader epoch that the broker has heard of: one that is cut off hears of none."""
    leads: int | None = None
    """The epoch in which it takes itself for the leader, rightly or not."""

    def told(self, role: Role) -> ReplicaLog:
        """What the broker says of it when it is asked."""
        said = replace(self.replica(), role=role, fenced=self.fenced)
        return replace(said, leader_epoch=self.knows_epoch)


@dataclass
class Life:
    """One partition on `BROKERS` from its creation on. Operations that make no sense do nothing."""

    minimum: int = 1
    """min.insync.replicas."""
    disks: dict[int, LivedDisk] = field(
        default_factory=lambda: {broker: LivedDisk(broker) for broker in BROKERS}
    )
    isr: set[int] = field(default_factory=lambda: set(BROKERS))
    elr: set[int] = field(default_factory=set)
    leader: int | None = BROKERS[0]
    epoch: int = 0
    ever_committed: set[Record] = field(default_factory=set)
    ever_marked: int = 0
    """The highest high watermark of any leader: a group may have committed up to there."""

    def __post_init__(self) -> None:
        self.disks[BROKERS[0]].leads = 0

    def append(self, count: int) -> None:
        """The leader takes records; nobody has fetched them yet."""
        if self.leader is not None:
            disk = self.disks[self.leader]
            disk.epochs += [self.epoch] * count

    def append_while_cut_off(self, broker: int, count: int) -> None:
        """A leader that is cut off from the controllers still serves producers with acks=1."""
        disk = self.disks[broker]
        if disk.up and disk.leads is not None and broker != self.leader:
            disk.epochs += [disk.leads] * count

    def replicate(self, broker: int, count: int) -> None:
        """A live follower truncates to the leader's lineage and copies up to *count* records."""
        if self.leader is None or broker == self.leader or not self._live(broker):
            return
        led, disk = self.disks[self.leader], self.disks[broker]
        disk.follow(led, count)
        if disk.end == led.end:
            self._isr_becomes(self.isr | {broker})
        self._commit()

    def write(self, count: int) -> None:
        """The same for everybody in sync: records with acks=all, acknowledged."""
        self.append(count)
        for broker in sorted(self.isr):
            self.replicate(broker, len(BROKERS) * 1000)

    def drop(self, broker: int) -> None:
        """A follower falls out of the ISR while it lives."""
        if self.leader is not None and broker != self.leader:
            self._isr_becomes(self.isr - {broker})
            self._commit()

    def stop(self, broker: int) -> None:
        """The broker goes down, cleanly or not, with its disk as it is."""
        self.disks[broker].up = False
        self.disks[broker].leads = None
        self._fence(broker)

    def cut_off(self, broker: int) -> None:
        """The broker loses its way to the controllers, and runs on."""
        self._fence(broker)

    def start(self, broker: int) -> None:
        """The broker is back, with what its disk holds, and hears of all that happened."""
        disk = self.disks[broker]
        disk.up, disk.fenced = True, False
        if broker != self.leader:
            disk.leads = None
        self._tell()
        if self.leader is None:
            self._elect_cleanly()

    def replace_disk(self, broker: int) -> None:
        """A broker that is down gets a new disk."""
        disk = self.disks[broker]
        if not disk.up:
            disk.epochs, disk.start, disk.hw = [], 0, 0

    def elect_uncleanly(self, broker: int) -> None:
        """Somebody made a live replica lead though nothing says that it is whole."""
        if self.leader is None and self._live(broker):
            self.isr, self.elr = {broker}, set()
            self._lead(broker)

    def expire(self, broker: int, count: int) -> None:
        """Retention: each broker deletes for itself, never above its high watermark."""
        disk = self.disks[broker]
        if disk.up:
            disk.expire(count)

    def forget(self) -> None:
        """min.insync.replicas was changed, which wipes what is known of eligible replicas (R3)."""
        if self.leader is None:
            self.isr, self.elr = set(), set()

    def finish(self) -> None:
        """The last leaders go, one after the other, until the partition is offline."""
        while self.leader is not None:
            self.stop(self.leader)

    def evidence(self, unheard: frozenset[int] = frozenset(), floor: int = 0) -> PartitionEvidence:
        """What is read of the partition, offline as it is, while *unheard* do not answer us.

        *floor* is the highest offset that a group has committed; readable high watermarks count
        as well, as they do in the product.
        """
        replicas = [self._replica(self.disks[broker], broker in unheard) for broker in BROKERS]
        marks = [
            replica.high_watermark
            for replica in replicas
            if isinstance(replica.high_watermark, int)
        ]
        return offline(
            *replicas,
            leader_epoch=self.epoch,
            floor=max([floor, *marks]),
            settings=replace(PLAIN, min_insync_replicas=self.minimum),
        )

    def holds_beyond(self, broker: int, designee: int) -> frozenset[Record]:
        """What *broker* truly holds and *designee* does not: cut off if that one leads."""
        return frozenset(self.disks[broker].records - self.disks[designee].records)

    def _replica(self, disk: LivedDisk, unheard: bool) -> ReplicaLog:
        role = Role.ELR if disk.broker in self.elr else Role.STALE
        role = Role.ISR if disk.broker in self.isr else role
        if disk.up and not unheard:
            told = disk.told(role)
            if disk.hw == 0 and disk.end > 0:
                return replace(told, high_watermark=Unknown("high watermark 0 after kill -9"))
            return told
        return silent(disk.broker, role=role, fenced=disk.fenced, log_dir_online=True)

    def _live(self, broker: int) -> bool:
        return self.disks[broker].up and not self.disks[broker].fenced

    def _fence(self, broker: int) -> None:
        self.disks[broker].fenced = True
        self._isr_becomes(self.isr - {broker})
        if self.leader == broker:
            self.leader = None
            self.epoch += 1
            self._tell()
            self._elect_cleanly()
        self._commit()

    def _isr_becomes(self, members: set[int]) -> None:
        """KIP-966: who leaves an ISR below the minimum is eligible for as long as it stays so."""
        left = self.isr - members
        self.isr = members
        self.elr = set() if len(members) >= self.minimum else (self.elr | left) - members

    def _elect_cleanly(self) -> None:
        for broker in BROKERS:
            if broker in (self.isr or self.elr) and self._live(broker):
                self.elr.discard(broker)
                self.isr |= {broker}
                self._lead(broker)
                return

    def _lead(self, broker: int) -> None:
        self.leader, self.epoch = broker, self.epoch + 1
        self.disks[broker].leads = self.epoch
        self._tell()
        self._commit()

    def _tell(self) -> None:
        """All whom the controllers reach learn of the epoch, and who leads in it."""
        for disk in self.disks.values():
            if disk.up and not disk.fenced:
                disk.knows_epoch = self.epoch
                if disk.broker != self.leader:
                    disk.leads = None

    def _commit(self) -> None:
        if self.leader is None or len(self.isr) < self.minimum:
            return
        led = self.disks[self.leader]
        led.hw = max(led.hw, min(self.disks[number].end for number in self.isr))
        self.ever_marked = max(self.ever_marked, led.hw)
        self.ever_committed |= {(led.epochs[at], at) for at in range(led.hw)}


_brokers = st.sampled_from(BROKERS)
_counts = st.integers(1, 4)
STEPS = st.one_of(
    st.tuples(st.just("write"), _counts),
    st.tuples(st.just("append"), _counts),
    st.tuples(st.just("append_while_cut_off"), _brokers, _counts),
    st.tuples(st.just("replicate"), _brokers, _counts),
    st.tuples(st.just("replicate"), _brokers, st.just(1000)),
    st.tuples(st.just("drop"), _brokers),
    st.tuples(st.just("stop"), _brokers),
    st.tuples(st.just("stop"), _brokers),
    st.tuples(st.just("cut_off"), _brokers),
    st.tuples(st.just("start"), _brokers),
    st.tuples(st.just("start"), _brokers),
    st.tuples(st.just("replace_disk"), _brokers),
    st.tuples(st.just("elect_uncleanly"), _brokers),
    st.tuples(st.just("expire"), _brokers, _counts),
)
"""What may happen next, as the name of a method of `Life` and its arguments."""


MEANWHILE = st.one_of(
    st.tuples(st.just("stop"), _brokers),
    st.tuples(st.just("stop"), _brokers),
    st.tuples(st.just("append_while_cut_off"), _brokers, _counts),
    st.tuples(st.just("replace_disk"), _brokers),
    st.tuples(st.just("expire"), _brokers, _counts),
    STEPS,
)
"""What may happen next while somebody watches: mostly what makes brokers fall silent."""

Step = tuple[str, *tuple[int, ...]]


def live_through(life: Life, steps: list[Step]) -> None:
    """Let *steps* happen to *life*, in their order."""
    for name, *arguments in steps:
        getattr(life, name)(*arguments)


@st.composite
def offline_lives(draw: st.DrawFn, most: int = 25) -> Life:
    """A partition after up to *most* steps, offline, with some of the stale brokers back."""
    life = Life(minimum=draw(st.integers(1, 3)))
    live_through(life, draw(st.lists(STEPS, min_size=3, max_size=most)))
    life.finish()
    if draw(st.booleans()):
        life.forget()
    for broker in draw(st.permutations(BROKERS))[: draw(st.integers(1, 4))]:
        if broker not in life.isr | life.elr:
            life.start(broker)
    return life


@st.composite
def lives_with_brokers_gone(draw: st.DrawFn) -> tuple[Life, frozenset[int]]:
    """`offline_lives`, and which of the brokers that are down were declared gone."""
    life = draw(offline_lives())
    down = [broker for broker in BROKERS if not life.disks[broker].up]
    gone = draw(st.lists(st.sampled_from(down), unique=True)) if down else []
    return life, frozenset(gone)


def silences() -> st.SearchStrategy[frozenset[int]]:
    """Brokers that do not answer us, whether they run or not."""
    return st.frozensets(_brokers, max_size=2)
