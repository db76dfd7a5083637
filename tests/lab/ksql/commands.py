"""`breakglass ksql` as an operator runs it: to its end, or followed while it goes on."""

import json
from contextlib import AbstractContextManager
from dataclasses import asdict
from pathlib import Path
from typing import Any

from breakglass.services.errors import BreakglassError
from breakglass.services.lab.cluster import Cluster
from breakglass.services.metastore.backup_run import BackupJob, run_backup
from breakglass.services.metastore.events import document
from tests.kit.clusters import access_to
from tests.kit.program import Ended, breakglass
from tests.kit.running import Running, running
from tests.lab.ksql.topics import CommandTopic


class Done(Ended):
    """How a command ended."""

    @property
    def lines(self) -> list[dict[str, Any]]:
        """What it printed, line by line as JSON."""
        return [json.loads(line) for line in self.out.splitlines()]

    @property
    def last(self) -> dict[str, Any]:
        """What it summed up."""
        return self.lines[-1]

    def kinds(self) -> list[str]:
        """Its events, in order."""
        return [line["event"] for line in self.lines if "event" in line]


def run(cluster: Cluster | None, *words: str) -> Done:
    """Run it to its end, in this process."""
    where = [] if cluster is None else ["--bootstrap-server", cluster.bootstrap_servers]
    return Done(*breakglass("metastore", *words, *where))


def backed_up(topic: CommandTopic, folder: Path, *, fail: bool = False) -> Done:
    """What the command would tell of a backup."""
    events: list[dict[str, Any]] = []
    job = BackupJob(topic.name, folder, fail_on_difference=fail)
    try:
        outcome = run_backup(
            access_to(topic.cluster), job, lambda event: events.append(document(event))
        )
    except BreakglassError as error:
        return Done(error.exit_code, _lines(events), str(error))
    code = int(bool(outcome.alarms or outcome.shorter))
    return Done(code, _lines([*events, asdict(outcome)]), "")


def _lines(documents: list[dict[str, Any]]) -> str:
    return "".join(json.dumps(one) + "\n" for one in documents)


Follower = Running
"""A command that goes on."""


def following(cluster: Cluster, *words: str) -> AbstractContextManager[Follower]:
    """The command under way; killed at the end if it still is."""
    where = ("--bootstrap-server", cluster.bootstrap_servers, "--follow", "--json")
    return running(None, "metastore", *words, *where)
