"""Incidents 1 and 2 on real brokers, as an operator's terminal shows them, screen by screen.

A broker is back with an empty disk: stopped in time, and then, in a second incident, not.
"""

import asyncio
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import AsyncExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from textual.pilot import Pilot

from breakglass.console.app import BreakglassApp
from breakglass.console.checkpoint_text import CommandText
from breakglass.console.web.session import WebConsole
from breakglass.console.wiring import Connection
from breakglass.screens.context import Context, Known
from breakglass.screens.terminal import Terminal
from breakglass.services.connection.sources import ConnectionOptions
from breakglass.services.incident.watch import IncidentWatch
from breakglass.services.lab.cluster import Cluster
from breakglass.services.lab.scenarios.behind import (
    ELECTION_INTERVAL,
    REPLACED_DISK,
    STALE_REPLICAS,
)
from breakglass.services.lab.scenarios.damage import bring_back
from breakglass.services.lab.scenarios.scenario import play, raise_lab
from breakglass.services.model import TopicPartition
from tests.kit.program import Ended, breakglass
from tests.kit.waiting import DEADLINE_SECONDS
from tests.lab.asking import election_code
from tests.screens.turns import text

STILL_SECONDS = 0.3
TOLD_INTERVAL = "30"
"""What the brokers say; the controller's own is longer, so that nothing goes off too early."""
ORDERS = TopicPartition("orders", 0)
CARTS = [TopicPartition("carts", number) for number in range(3)]


@dataclass
class Told:
    """What was to be read while it happened."""

    frames: dict[str, str] = field(default_factory=dict)
    """Screens, by what they show."""
    commands: dict[str, Ended] = field(default_factory=dict)

    def everything(self, *prefixes: str) -> Iterator[tuple[str, str]]:
        """All that was shown or printed under names that begin so."""
        for name, frame in self.frames.items():
            if name.startswith(prefixes):
                yield name, frame
        for name, ended in self.commands.items():
            if name.startswith(prefixes):
                yield name, ended.out + ended.err


@dataclass
class Desk:
    """A console over the lab, in this process, and what is kept of its screens."""

    app: BreakglassApp
    pilot: Pilot[Any]
    told: Told

    async def until(self, so: Callable[[str], object], what: str) -> str:
        """The screen, once *so* of it."""
        end = asyncio.get_running_loop().time() + DEADLINE_SECONDS
        while not so(text(self.app)):
            assert asyncio.get_running_loop().time() < end, (
                f"{what} did not come:\n{text(self.app)}"
            )
            await self.pilot.pause(0.05)
        return text(self.app)

    async def close(self) -> None:
        """End it once nobody is being asked: a connection that is being made would be left."""
        known = self.app.context.known
        known.paused = True
        while known.reading or any("(_greet)" in thread.name for thread in threading.enumerate()):
            await self.pilot.pause(0.05)
        self.app.context.close()

    async def see(self, name: str, *words: str) -> None:
        """Keep the screen under *name* once it shows *words* and stands still."""

        def shown(screen: str) -> bool:
            return all(word in flat(screen) for word in words)

        screen = ""
        while screen != (now := await self.until(shown, f"{name}: {words}")):
            screen = now
            await self.pilot.pause(STILL_SECONDS)
        self.told.frames[name] = screen


def flat(shown: str) -> str:
    """What is *shown*, on one line, each space single."""
    return " ".join(shown.split())


def no_console(cluster: Cluster, folder: Path) -> Context:
    """What a read-only console works with."""
    access = Connection(ConnectionOptions(cluster.bootstrap_servers)).access()
    return Context(
        access,
        IncidentWatch(access, state_folder=folder),
        Terminal(),
        CommandText(),
        profile="prod-eu-1",
        state_folder=folder,
        known=Known(interval=0.5),
    )


@contextmanager
def threatened(folder: Path) -> Iterator[Cluster]:
    """b4 led `carts` last and is back EMPTY; `orders` waits for b3, which is dead."""
    brokers = {"broker.session.timeout.ms": "4000"}

    def tell_brokers(cluster: Cluster) -> None:
        for node in cluster.brokers:
            cluster.configure(node.id, {**brokers, ELECTION_INTERVAL: TOLD_INTERVAL})

    shape = replace(REPLACED_DISK.shape, prepare=tell_brokers)
    scenarios = (replace(REPLACED_DISK, shape=shape), STALE_REPLICAS)
    with raise_lab(folder, scenarios, tethered=True) as cluster:
        play(cluster, scenarios)
        yield cluster


@contextmanager
def state_of_operator(folder: Path) -> Iterator[Path]:
    """The commands' state folder below *folder*, whatever the user has."""
    before = os.environ.get("XDG_STATE_HOME")
    os.environ["XDG_STATE_HOME"] = str(folder)
    try:
        yield folder / "breakglass"
    finally:
        os.environ.pop("XDG_STATE_HOME")
        if before is not None:
            os.environ["XDG_STATE_HOME"] = before


def tell(folder: Path) -> Told:
    """Play both incidents; takes a minute."""
    told = Told()
    with threatened(folder / "lab") as cluster, state_of_operator(folder / "state") as state:
        _commands(cluster, told, folder)
        asyncio.run(_incidents(cluster, told, state))
        observed = ("journal", "list", "--observed", "--json")
        told.commands["afterwards: journal list --observed"] = breakglass(*observed)
    return told


def _commands(cluster: Cluster, told: Told, folder: Path) -> None:
    servers = ("--bootstrap-server", cluster.bootstrap_servers)
    for name, arguments in {
        "triage": ("triage",),
        "triage --json": ("triage", "--json"),
        "plan make": ("plan", "make", "--out", folder / "plan.json"),
    }.items():
        told.commands[f"bomb: {name}"] = breakglass(*arguments, *servers)
    show = breakglass("plan", "show", folder / "plan.json")
    told.commands["bomb: plan show"] = show
    plan = (folder / "plan.json").read_text()
    told.commands["bomb: plan file"] = Ended(0, plan, "")


async def _incidents(cluster: Cluster, told: Told, state: Path) -> None:
    async with AsyncExitStack() as open_consoles:

        async def desk(kind: type[BreakglassApp] = BreakglassApp) -> Desk:
            app = kind(no_console(cluster, state), theme="breakglass-dark")
            pilot = await open_consoles.enter_async_context(app.run_test(size=(80, 24)))
            made = Desk(app, pilot, told)
            open_consoles.push_async_callback(made.close)
            return made

        first = await desk()
        await _threatened(first)
        second = await desk()
        # The first incident ends well: the operator stops b4, and b1 can be elected.
        await second.see("before: opened later", "FIRST stop b4 NOW: BOMB on 3.")
        await first.see("before: opened earlier", "FIRST stop b4 NOW: BOMB on 3.")
        cluster.broker(4).kill()
        await _in_thread(cluster.wait_fenced, 4)
        await first.see("stopped: list", "2 fenced", "elect b1")
        await _gone_off(cluster, second, await desk(WebConsole))


async def _in_thread(what: Callable[..., Any], *arguments: Any) -> Any:
    return await asyncio.get_running_loop().run_in_executor(None, what, *arguments)


async def _threatened(first: Desk) -> None:
    """Each screen says that b4 is to be stopped."""
    await first.see("bomb: list", "FIRST stop b4 NOW: BOMB on 3.", "then start b3", "2 of 3")
    await first.pilot.press("f")
    await first.see("bomb: forecast", "at any moment", "stop b4 NOW")
    await first.pilot.press("escape", "right", "down", "enter")
    await first.see("bomb: partition", "Each choice", "stop b4 NOW")
    await first.pilot.press("escape", "1")
    await first.see("bomb: overview", "FIRST stop b4 NOW: BOMB on 3.")
    await first.pilot.press("3", "p")
    await first.see("bomb: plan", "FIRST stop b4 NOW: BOMB on 3.", "carts")
    await first.pilot.press("2")


async def _gone_off(cluster: Cluster, second: Desk, browser: Desk) -> None:
    """The second incident: b1 is stopped, and b4 started again, which its unfencing elects."""
    told = second.told
    await second.see("before: list", "2 fenced", "elect b1")
    cluster.broker(1).kill()
    await _in_thread(cluster.wait_fenced, 1)
    await second.see("before: b1 is away", "3 fenced")
    await browser.until(lambda shown: "3 fenced" in shown, "the same in a browser")
    code, _ = await _in_thread(election_code, cluster, ORDERS)
    assert code == 0
    await second.see(
        "seen: another's election",
        "orders-0 was elected by somebody else",
        "25 records are only on b1, not truncated yet; do not start b1",
    )
    await _in_thread(bring_back, cluster, 4)
    await second.see("seen: list", "b4 was elected EMPTY", "b2 has been truncated", "And 1 more")
    for key, name in {"1": "overview", "3": "plan", "5": "backups", "7": "metastore"}.items():
        await second.pilot.press(key)
        await second.see(f"seen: {name}", "b4 was elected EMPTY")
    await browser.see("seen: browser", "b4 was elected EMPTY")
    servers = ("--bootstrap-server", cluster.bootstrap_servers)
    told.commands["seen: triage"] = await _in_thread(lambda: breakglass("triage", *servers))
    await _in_thread(bring_back, cluster, 1)
    await second.pilot.press("2")
    await second.see("truncated: list", "b1 and b2 have been truncated")
    await second.pilot.press("4")
    await second.see("truncated: journal", "SEEN", "nobody yet: ! acknowledges it")
    await second.pilot.press("down")
    await second.see("truncated: journal of orders", "25 records", "b1 has been truncated")
    await second.pilot.press("exclamation_mark")
    await second.see("acknowledged: journal", "acknowledged", "Acknowledged by")
    await second.pilot.press("2")
    await second.until(lambda shown: "EMPTY" not in shown, "the line to go")
    await second.see("acknowledged: list", "2 offline")
    told.commands["acknowledged: triage"] = await _in_thread(lambda: breakglass("triage", *servers))
