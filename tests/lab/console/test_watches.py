"""What the console watches through every fault, among brokers that hang too: the last figures stay,
dated, and new ones come. Groups that committed past the end of their log are put back (R19).
"""

import signal
import subprocess
import sys
import threading
import uuid
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from breakglass.services.backup_watch.watch import BackupWatch
from breakglass.services.errors import BreakglassError
from breakglass.services.guard.journal import JournalView, list_journals
from breakglass.services.health.monitor import Monitor
from breakglass.services.incident.incident import Incident
from breakglass.services.incident.watch import IncidentWatch
from breakglass.services.lab.cluster import Cluster
from breakglass.services.lab.produce import produce
from breakglass.services.lab.topics import create_topic
from breakglass.services.model import TopicPartition, Unknown
from tests.kit.clusters import access_to
from tests.kit.faults import CONSOLE, Fault, Lab, Report, damage, on_followed_lab, under_faults
from tests.kit.waiting import DEADLINE_SECONDS, wait_until
from tests.lab.asking import commit, committed_offset
from tests.lab.console.commands import on
from tests.terminal.conftest import environment
from tests.terminal.pty_terminal import PtyTerminal
from tests.web.browser import browser

DURATION = 5.0


class Watching:
    """Reads as the screens do, in one thread, until it is closed."""

    def __init__(self, lab: Lab, disk: Path) -> None:
        self._watch = IncidentWatch(access_to(lab.cluster), duration=DURATION)
        self.monitor = Monitor()
        self.backups = BackupWatch([str(disk)])
        self.incident: Incident | None = None
        self.readings = 0
        self.failure = ""
        self._stop = threading.Event()
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _run(self) -> None:
        while not self._stop.wait(0.5):
            try:
                for incident in self._watch.read(self.incident):
                    self.monitor.seen(incident.snapshot)
                    self.incident, self.failure = incident, ""
            except BreakglassError as error:
                self.failure = str(error)
                self.monitor.missed(str(error))
            else:
                self.readings += 1
            self.backups.look(now=True)

    def close(self) -> None:
        self._stop.set()
        self._watch.close()
        self.thread.join(DEADLINE_SECONDS)


@contextmanager
def watching(lab: Lab, disk: Path) -> Iterator[Watching]:
    found = Watching(lab, disk)
    try:
        yield found
    finally:
        found.close()


def said(seen: Watching, lab: Lab, fault: Fault) -> bool:
    """Whether the watch shows what is wrong."""
    incident = seen.incident
    if incident is None:
        return False
    down = {broker.id for broker in lab.cluster.brokers if not broker.awake}
    if fault in (Fault.KILL_LEADER, Fault.EACH_BROKER, Fault.STOPPED_LEADER):
        fenced = {broker.id for broker in incident.snapshot.brokers if broker.fenced}
        return down <= fenced
    if fault is Fault.CONTROLLER:
        return isinstance(incident.snapshot.quorum, Unknown)
    if fault is Fault.LOST_NETWORK:
        return bool(seen.failure) and isinstance(seen.monitor.health.counts.failed, Unknown)
    return True


@on_followed_lab
@under_faults(CONSOLE)
def test_the_consoles_watches_go_on_through(
    fault: Fault, report: Report, followed_lab: Lab, disk: Path
) -> None:
    topic = f"orders-{uuid.uuid4().hex[:8]}"
    followed_lab.create(topic)
    with watching(followed_lab, disk) as seen:
        wait_until(lambda: seen.readings, "a first reading")

        def during() -> None:
            wait_until(
                lambda: report is Report.NOTHING or said(seen, followed_lab, fault),
                "what is wrong",
                instead=lambda: (seen.failure, seen.incident and seen.incident.snapshot.brokers),
            )

        damage(fault, followed_lab, topic, disk, during)

        def whole() -> bool:
            incident = seen.incident
            return (
                not seen.failure
                and incident is not None
                and not isinstance(incident.snapshot.quorum, Unknown)
                and not any(broker.fenced for broker in incident.snapshot.brokers)
                and seen.monitor.health.counts.failed is None
            )

        before = seen.readings
        wait_until(lambda: seen.readings > before and whole(), "whole figures")
        assert seen.thread.is_alive()


TOPIC = "invoices"
INVOICES = TopicPartition(TOPIC, 0)
RECORDS = 20


def committed(cluster: Cluster) -> int:
    """Where the group stands on the topic's only partition."""
    return committed_offset(cluster, "billing", INVOICES)


@pytest.fixture(scope="module")
def ahead(three_brokers: Cluster) -> None:
    """A group without members that committed 35 where the log ends at 20, and one at the end."""
    create_topic(three_brokers, TOPIC, [[1, 2, 3]])
    produce(three_brokers, TOPIC, 0, RECORDS)
    commit(three_brokers, "billing", INVOICES, 35)
    commit(three_brokers, "reporting", INVOICES, RECORDS)


def test_r19_a_group_past_the_end_is_listed_and_one_at_the_end_is_not(
    three_brokers: Cluster, ahead: None
) -> None:
    listed = on(three_brokers, "after", "groups", "list", "--topics", TOPIC, "--json")

    assert listed.code == 0, listed.err
    assert [one["group"] for one in listed.document["past_end"]] == ["billing"]
    assert listed.document["past_end"][0]["to"] == RECORDS


def test_r19_a_reset_wants_the_write_flag_and_the_phrase_that_names_it(
    three_brokers: Cluster, ahead: None
) -> None:
    unarmed = on(three_brokers, "after", "groups", "reset", "--topics", TOPIC)
    unasked = on(three_brokers, "after", "groups", "reset", "--topics", TOPIC, "--write")

    assert (unarmed.code, unasked.code) == (3, 3)
    assert unasked.said[-1] == f"consent: billing on {TOPIC}-0 to {RECORDS}"
    assert committed(three_brokers) == 35


def test_r19_a_reset_moves_the_group_to_the_end_and_its_rollback_moves_it_back(
    three_brokers: Cluster, ahead: None
) -> None:
    phrase = f"billing on {TOPIC}-0 to {RECORDS}"
    reset = on(
        three_brokers, "after", "groups", "reset", "--topics", TOPIC, "--write", "--consent", phrase
    )
    assert reset.code == 0, reset.err
    assert committed(three_brokers) == RECORDS

    journal = list_journals(three_brokers.layout.cluster_id)[0]
    assert isinstance(journal, JournalView)
    back = f"billing on {TOPIC}-0 to 35"
    rolled = on(
        three_brokers, "after", "groups", "rollback", "--journal", journal.path, "--write",
        "--consent", back,
    )  # fmt: skip
    assert rolled.code == 0, rolled.err
    assert committed(three_brokers) == 35


PROGRAM = Path(sys.executable).parent / "breakglass"
SEEN = "refusals"
"""A topic that stays offline."""
HEADLINE = "come back whole"
"""Says what b3 would bring back; a browser's page has no room for all of the list."""
INTERRUPTED = 130


@contextmanager
def console(cluster: Cluster) -> Iterator[PtyTerminal]:
    command = (PROGRAM, "console", "--bootstrap-server", cluster.bootstrap_servers)
    with PtyTerminal(command, env=environment(), columns=120, rows=40) as terminal:
        terminal.wait_for(SEEN)
        yield terminal


@pytest.fixture
def nobody_answers(broken: Cluster) -> Iterator[None]:
    """Every broker that lives hangs until the end of the test."""
    with ExitStack() as resumed:
        for broker in (1, 2):
            broken.broker(broker).pause()
            resumed.callback(broken.broker(broker).resume)
        yield


@pytest.fixture
def at_work(broken: Cluster, request: pytest.FixtureRequest) -> Iterator[PtyTerminal]:
    """A console whose brokers hang from now on, while it reads and compares."""
    with console(broken) as terminal:
        request.getfixturevalue("nobody_answers")
        terminal.press("ctrl+r")
        terminal.press("d")
        terminal.wait_gone(SEEN)
        yield terminal


# The brokers hang until these tests have ended: a console that waited for them would not leave.


@pytest.mark.parametrize(("signalled", "code"), [(False, 0), (True, INTERRUPTED)])
def test_neither_quitting_nor_a_signal_waits_for_brokers_that_do_not_answer(
    at_work: PtyTerminal, signalled: bool, code: int
) -> None:
    if signalled:
        at_work.signal(signal.SIGTERM)
    else:
        at_work.press("q")

    assert at_work.exit_code() == code
    assert at_work.left_over == []


def test_the_last_truth_stays_and_its_age_is_told_while_no_broker_answers(
    broken: Cluster, request: pytest.FixtureRequest
) -> None:
    with console(broken) as terminal:
        request.getfixturevalue("nobody_answers")
        terminal.wait_for("STALE")
        assert SEEN in terminal.text
        terminal.press("down")
        terminal.press("?")
        terminal.wait_for("Offline partitions")


async def test_the_dashboard_shows_a_real_cluster_in_a_browser(
    broken: Cluster, tmp_path: Path
) -> None:
    command = (PROGRAM, "serve", "--port", "0", "--bootstrap-server", broken.bootstrap_servers)
    server = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    assert server.stderr is not None
    with server.stderr:
        token = server.stderr.readline().removeprefix("token: ").strip()
        url = server.stderr.readline().removeprefix("Open ").strip()
        async with browser(tmp_path / "browser") as page:
            await page.open(url)
            await page.enter(token)
            lines = await page.wait_for(HEADLINE)
            assert "READ-ONLY" in lines[0]
            await page.press("e")
            await page.wait_for("read-only:")
            server.send_signal(signal.SIGTERM)
            assert server.wait(DEADLINE_SECONDS) == 0
        assert server.stderr.read() == "The dashboard has ended.\n"
