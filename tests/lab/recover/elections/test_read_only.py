"""Nothing but reads reaches a broker from a command that was not armed, whichever it is."""

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from breakglass.console.app import MODES, BreakglassApp
from breakglass.console.console import make_context
from breakglass.console.look import LookOptions, decide_look
from breakglass.console.wiring import Connection
from breakglass.services import patience
from breakglass.services.connection.profiles import default_folder
from breakglass.services.connection.sources import ConnectionOptions
from breakglass.services.kafka.wire import api_keys
from breakglass.services.model import TopicPartition
from tests.kit.acl_page import asking_commands
from tests.kit.program import Ended, breakglass
from tests.lab.console.commands import elections
from tests.lab.recover.elections.conftest import VERSIONS
from tests.lab.recover.session import Watched, watched
from tests.lab.scenarios.damaged import Damaged
from tests.screens.every_key import press_every_key
from tests.screens.turns import text, until

PROGRAM = Path(sys.executable).with_name("kafka-unclean-recovery")
PROGRAM_SECONDS = 600
READS = api_keys.READ | {api_keys.API_VERSIONS}
ORDERS = TopicPartition("orders", 0)
SERVICE: list[object] = ["--service-id", "nobody"]
Words = Callable[[Path], list[object]]


def losing(folder: Path) -> Path:
    """An election that would lose 25 records."""
    return elections(folder, {ORDERS: 2})


def metastore_backup(folder: Path) -> Path:
    """A backup of one command."""
    path = folder / "backup_nobody"
    path.write_text('"stream/`A`/create":{"statement":"CREATE STREAM A (A INT);"}\n', "utf-8")
    return path


READING: dict[str, Words] = {
    "triage": lambda _: ["--each", "--show-replica-info"],
    "plan make": lambda folder: ["--out", folder / "plan.json"],
    "plan check": lambda folder: [losing(folder)],
    "plan edit": lambda folder: [losing(folder), "--prefer-rack", "r1"],
    "rescue": lambda folder: [losing(folder), "--store", folder / "rescued"],
    "unclean-recovery": lambda folder: [
        *("--all-offline-partitions", "--show-replica-info"),
        *("--manual-recovery-output-file", folder / "leaders.json"),
    ],
    "doctor": lambda _: [],
    "serve metrics": lambda folder: ["--once", "--out", folder / "breakglass.prom"],
    "checkpoint explain": lambda _: ["--topics", ORDERS.topic],
    "bundle capture": lambda folder: ["--to", folder / "bundle.tar.gz"],
    "recover resume": lambda _: [],
    "journal list": lambda _: [],
    "after groups list": lambda _: [],
    "recover freeze": lambda _: [],
    "after internal-topics": lambda _: [],
    "recover forget-leader": lambda _: [],
    "after add-replica": lambda _: [],
    "after transactions list": lambda _: [],
    "diff": lambda _: [f"replica:1/{ORDERS.topic}/0", f"replica:2/{ORDERS.topic}/0"],
    "ksql backup": lambda folder: [*SERVICE, "--store", folder],
    "ksql show": lambda _: SERVICE,
    "ksql submit": lambda _: ["DROP STREAM A;", *SERVICE],
    "ksql restore": lambda folder: [*(metastore_backup(folder), "--compact-offsets", *SERVICE)],
}
WRITING: dict[str, Words] = {
    "unclean-recovery": lambda _: ["--all-offline-partitions", "--automated-recovery"],
    "recover": lambda folder: [losing(folder)],
    "leader-election": lambda _: ["--election-type", "unclean", "--all-topic-partitions"],
    "after groups reset": lambda _: [],
    "after transactions finish": lambda _: ["--abort"],
    "after groups set": lambda folder: ["--source", f"log:{folder}"],
    "after groups rollback": lambda folder: [folder / "none.jsonl"],
    "checkpoint take": lambda folder: [
        *("--store", folder, "--topics", "orders", "--level", "coordinated")
    ],
}
ON_A_TERMINAL = {"console", "serve dashboard"}
"""They are proved by every key of theirs, in the last test here."""
OF_A_JOURNAL = {"journal check", "journal show", "recover thaw", "report"}
"""Without a journal it asks nothing; with one its client is the one that all of READING have."""
OF_LOG_FOLDERS = {"can-start", "quorum watch"}
"""They need log folders of dead nodes: tests/lab/recover/rescue/test_return.py and
tests/lab/quorum/test_return.py prove them."""
OF_BACKUPS = {"backup run", "backup verify", "backup list", "backup restore"}
"""They need a backup, and Spark's own clients: they are proved under tests/lab/backup."""
OF_CHECKPOINTS = {"checkpoint finish", "checkpoint restore", "serve checkpoints"}
"""They need a checkpoint, and Spark's own clients: they are proved under tests/lab/checkpoint."""


@pytest.fixture
def brokers(lab: Damaged) -> Iterator[Watched]:
    with watched(lab.cluster) as brokers:
        yield brokers


def ways_to(brokers: Watched) -> list[str]:
    """The options that lead to every broker by its proxy alone."""
    addresses = {broker: str(proxy.address) for broker, proxy in brokers.proxies.items()}
    ways = ["--bootstrap-server", ",".join(addresses[broker] for broker in (1, 2))]
    for broker, address in addresses.items():
        ways += ["--broker-address", f"{broker}={address}"]
    return ways


def run(brokers: Watched, command: str, *words: object) -> Ended:
    return breakglass(*command.split(), *words, *ways_to(brokers))


def test_no_command_that_asks_a_cluster_is_left_out() -> None:
    elsewhere = ON_A_TERMINAL | OF_A_JOURNAL | OF_LOG_FOLDERS | OF_BACKUPS | OF_CHECKPOINTS
    assert asking_commands() == READING.keys() | WRITING.keys() | elsewhere


@pytest.mark.parametrize("command", READING)
def test_a_command_that_reads_sends_reads_alone(
    brokers: Watched, tmp_path: Path, command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A question of an offline partition is asked again until then.
    monkeypatch.setattr(patience, "JOB", 5.0)
    run(brokers, command, *READING[command](tmp_path))
    sent = {request.api_key for request in brokers.sent}
    assert sent - {api_keys.API_VERSIONS}
    assert sent <= READS


def test_kip_1275s_own_command_sends_reads_alone(brokers: Watched) -> None:
    wanted = ["--all-offline-partitions", "--show-replica-info"]
    command = [str(PROGRAM), *wanted, *ways_to(brokers)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PROGRAM_SECONDS)
    assert f"{ORDERS} " in done.stdout
    assert {request.api_key for request in brokers.sent} <= READS


@pytest.mark.parametrize("command", WRITING)
def test_a_command_that_changes_the_cluster_is_refused_before_it_asks_anything(
    brokers: Watched, tmp_path: Path, command: str
) -> None:
    ended = run(brokers, command, *WRITING[command](tmp_path))
    assert ended.code == 3
    assert "add --write" in ended.err
    assert brokers.sent == []


@pytest.mark.parametrize("lab", VERSIONS[:1], indirect=True)
async def test_a_read_only_console_sends_reads_alone_whatever_is_pressed(brokers: Watched) -> None:
    look = decide_look(LookOptions(), default_folder())
    # One that leads to every broker by its proxy alone.
    addresses = {broker: str(proxy.address) for broker, proxy in brokers.proxies.items()}
    options = ConnectionOptions(
        bootstrap_server=",".join(addresses[broker] for broker in (1, 2)),
        broker_address=tuple(f"{broker}={address}" for broker, address in addresses.items()),
    )
    context = make_context(Connection(options), (), look)
    console = BreakglassApp(context, theme=look.theme)
    async with console.run_test(size=(80, 24)) as pilot:
        await until(pilot, lambda: "orders" in text(console), "the offline partitions")
        pressed = await press_every_key(pilot)
        context.close()
    assert len(pressed) > len(MODES)
    sent = {request.api_key for request in brokers.sent}
    assert sent - {api_keys.API_VERSIONS}
    assert sent <= (api_keys.READ | {api_keys.API_VERSIONS})
