"""The console on a terminal while brokers answer nothing: it is drawn, it is told, it is left."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from breakglass.services.lab.cluster import Cluster
from tests.kit.waiting import DEADLINE_SECONDS
from tests.terminal.conftest import environment
from tests.terminal.pty_terminal import PtyTerminal
from tests.web.browser import browser

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


def test_quitting_waits_for_no_broker_that_does_not_answer(at_work: PtyTerminal) -> None:
    at_work.press("q")

    assert at_work.exit_code() == 0
    assert at_work.left_over == []


def test_a_signal_ends_it_while_no_broker_answers(at_work: PtyTerminal) -> None:
    at_work.signal(signal.SIGTERM)

    assert at_work.exit_code() == INTERRUPTED
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
