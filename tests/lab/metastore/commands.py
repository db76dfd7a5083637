"""`breakglass metastore` as an operator runs it: to its end, or followed while it goes on."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

from breakglass.services.connection.sources import ConnectionOptions, connection_settings
from breakglass.services.errors import BreakglassError
from breakglass.services.lab.cluster import Cluster
from breakglass.services.metastore.backup_job import BackupJob
from breakglass.services.metastore.backup_run import run_backup
from breakglass.services.metastore.events import document
from breakglass.services.session import ReadAccess
from tests.lab.metastore.topics import CommandTopic

PROGRAM = "import sys; from breakglass.console.cli import main; sys.exit(main())"
SECONDS = 60.0


class Done(NamedTuple):
    """How a command ended."""

    code: int
    out: str
    err: str

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


def words_of(cluster: Cluster | None, words: tuple[str, ...]) -> list[str]:
    where = [] if cluster is None else ["--bootstrap-server", cluster.bootstrap_servers]
    return [sys.executable, "-c", PROGRAM, "metastore", *words, *where]


def run(cluster: Cluster | None, *words: str) -> Done:
    """Run it to its end."""
    done = subprocess.run(
        words_of(cluster, words), capture_output=True, text=True, timeout=SECONDS, check=False
    )
    return Done(done.returncode, done.stdout, done.stderr)


def backed_up(topic: CommandTopic, folder: Path, *, fail: bool = False) -> Done:
    """What `run` would tell of a backup, made in this process: starting another takes longer."""
    events: list[dict[str, Any]] = []
    job = BackupJob(topic.name, folder, fail_on_difference=fail)
    try:
        outcome = run_backup(
            access_to(topic.cluster),
            {"bootstrap.servers": topic.cluster.bootstrap_servers},
            job,
            lambda event: events.append(document(event)),
        )
    except BreakglassError as error:
        return Done(error.exit_code, _lines(events), str(error))
    code = int(bool(outcome.alarms or outcome.shorter))
    return Done(code, _lines([*events, asdict(outcome)]), "")


def access_to(cluster: Cluster) -> ReadAccess:
    """What reads the cluster."""
    options = ConnectionOptions(bootstrap_server=cluster.bootstrap_servers)
    return ReadAccess(connection_settings(options, {}))


def _lines(documents: list[dict[str, Any]]) -> str:
    return "".join(json.dumps(one) + "\n" for one in documents)


class Follower:
    """A command that goes on, and what it told so far, with when it was heard."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self.told: list[tuple[float, dict[str, Any]]] = []
        self._thread = threading.Thread(target=self._listen, daemon=True)
        self._thread.start()

    def _listen(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.told.append((time.monotonic(), json.loads(line)))

    def wait(self, wanted: Callable[[dict[str, Any]], bool]) -> tuple[float, dict[str, Any]]:
        """When something was told, and what."""
        give_up = time.monotonic() + SECONDS
        while time.monotonic() < give_up:
            for at, one in list(self.told):
                if wanted(one):
                    return at, one
            if self.process.poll() is not None:
                self._thread.join(5)
                if not any(wanted(one) for _, one in self.told):
                    break
            time.sleep(0.01)
        error = "" if self.process.poll() is None else self.process.stderr.read()  # type: ignore[union-attr]
        raise AssertionError(f"not told; only {self.told} {error}")

    def event(self, kind: str) -> dict[str, Any]:
        """The first event of that kind."""
        return self.wait(lambda one: one.get("event") == kind)[1]

    def alarm(self, danger: str) -> float:
        """When the alarm about *danger* was heard."""
        return self.wait(lambda one: one.get("danger") == danger)[0]

    def stop(self) -> dict[str, Any]:
        """Ask it to end; returns what it sums up."""
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(SECONDS)
        self._thread.join(5)
        return self.told[-1][1]


@contextmanager
def following(cluster: Cluster, *words: str) -> Iterator[Follower]:
    """The command under way; killed at the end if it still is."""
    with subprocess.Popen(
        words_of(cluster, (*words, "--follow", "--json")),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            yield Follower(process)
        finally:
            process.kill()
