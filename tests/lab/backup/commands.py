"""`breakglass backup`, as an operator runs it, in a process of its own."""

import json
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any

from breakglass.services.lab.cluster import Cluster
from tests.kit.running import Running, ran, running
from tests.kit.waiting import wait_until


def started(
    broker: Cluster, *words: str, before: Sequence[str] = ()
) -> AbstractContextManager[Running]:
    """The command under way on the broker; *before* is a command that starts it."""
    where = ("--bootstrap-server", broker.bootstrap_servers)
    return running(None, "backup", *words, *where, before=before)


def finish(broker: Cluster, *words: str) -> tuple[int, str, str]:
    """Run it to its end: exit code, stdout and stderr."""
    ended = ran("backup", *words, "--bootstrap-server", broker.bootstrap_servers)
    return ended.code, ended.out, ended.err


def last_line(out: str) -> Any:
    return json.loads(out.splitlines()[-1])


def so_far(process: Running, condition: Callable[[], bool], what: str) -> None:
    """Wait until *condition* holds while the command runs."""

    def reached() -> bool:
        assert not process.ended, process.said
        return condition()

    wait_until(reached, what, every=0.002)
