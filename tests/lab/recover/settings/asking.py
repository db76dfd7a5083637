"""What tests ask a lab about settings, and how they drive the program behind proxies."""

import os
import signal
import subprocess
import sys
from typing import Any

from breakglass.console.wiring import Connection
from breakglass.services.connection.sources import ConnectionOptions
from breakglass.services.guard.journal import JournalView, list_journals
from breakglass.services.kafka.cluster.settings import LayeredSetting, read_layered
from breakglass.services.kafka.wire.deadline import Deadline
from breakglass.services.lab.cluster import Cluster
from breakglass.services.model import Unknown
from tests.kit.program import Ended, breakglass
from tests.lab.console.test_electing_on_screen import Operator
from tests.lab.recover.session import Watched

INCREMENTAL_ALTER_CONFIGS = 44
PROGRAM_SECONDS = 600.0


def layers(cluster: Cluster, name: str, topic: str) -> LayeredSetting:
    """The setting of *topic*, layer by layer, past proxies and authorizer."""
    with Connection(ConnectionOptions(cluster.lab_bootstrap)).reading() as client:
        told = read_layered(client.sender, name, [topic], Deadline.after(10.0))[topic]
    assert not isinstance(told, Unknown), told
    return told


def own(cluster: Cluster, name: str, topic: str) -> str | None:
    """What *topic* has of its own."""
    return layers(cluster, name, topic).own


def at(watched: Watched) -> list[str]:
    """The options that lead a command through the proxies."""
    options = watched.connection.options
    addresses = [f"--broker-address={address}" for address in options.broker_address]
    return [f"--bootstrap-server={options.bootstrap_server}", *addresses]


def run(watched: Watched, *arguments: object) -> Ended:
    """The program, through the proxies."""
    return breakglass(*arguments, *at(watched))


def killed_at(
    watched: Watched, kind: str, step: str, number: int, *arguments: object
) -> JournalView:
    """The program killed by SIGKILL once that line is in its journal, and the journal it left."""
    kill_at(dict(os.environ), kind, step, number, *map(str, arguments), *at(watched))
    return newest_journal(watched)


def kill_at(
    environment: dict[str, str], kind: str, step: str, number: int, *arguments: str
) -> None:
    """Run the program, which is killed as soon as that line is in its journal."""
    driver = [sys.executable, "-m", "tests.lab.recover.elections.killed_at"]
    done = subprocess.run(
        [*driver, kind, step, str(number), *arguments],
        env=environment,
        capture_output=True,
        text=True,
        timeout=PROGRAM_SECONDS,
    )
    assert done.returncode == -signal.SIGKILL, done.stderr


def newest_journal(watched: Watched) -> JournalView:
    """The last journal that was begun."""
    with watched.connection.reading() as client:
        cluster_id = client.describe(Deadline.after(10.0)).cluster_id
    newest = list_journals(cluster_id)[0]
    assert isinstance(newest, JournalView)
    return newest


def agree(operator: Operator, phrase: str) -> None:
    """Type *phrase* once it is asked for."""
    operator.terminal.wait_for(f"Type       {phrase}")
    operator.press("tab")
    operator.terminal.type_phrase(phrase)
    operator.press("enter")


def changes(watched: Watched) -> list[Any]:
    """The requests that changed settings, decoded."""
    from kafka.protocol.admin import IncrementalAlterConfigsRequest

    return watched.requests(INCREMENTAL_ALTER_CONFIGS, IncrementalAlterConfigsRequest)
