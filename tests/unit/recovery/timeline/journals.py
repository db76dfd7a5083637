"""Journals as recoveries write them, made by hand: also for the screen that shows them."""

import json
from pathlib import Path
from typing import Any

from breakglass.services.guard.journal import UNKNOWN, Items, Journal, JournalView, read
from breakglass.services.model import TopicPartition
from breakglass.services.recovery.execution.steps import ELECT, REORDER, RESCUE, RESTORE, described
from breakglass.services.recovery.group_reset import STEP as COMMIT
from breakglass.services.recovery.rescue.rescue import SAVED
from tests.unit.recovery.execution.targets import target

CLUSTER = "prod-eu-1"
ORDERS = tuple(TopicPartition("orders", number) for number in range(3))
LEDGER = TopicPartition("ledger", 3)
DIGEST = "9f3c" + 60 * "0"
HOSTILE = "orders\x1b[2J[red]x[/]\u202e"
BEGIN_MS = 1_700_000_000_000
"""2023-11-14 22:13:20 UTC."""
TIMED_OUT = "the controller did not answer in time"


def plan(journal: Journal, prices: dict[TopicPartition, str], digest: str = DIGEST) -> None:
    """Write the plan of these partitions and the consent to it."""
    items = {one: {**described(target(one)), "price": price} for one, price in prices.items()}
    journal.plan(digest, "", items, consents=1)
    journal.consent(f"{len(prices)} partitions lose 50", implied=False)


def step(journal: Journal, name: str, results: dict[TopicPartition, Any], **details: Any) -> int:
    """Announce a step and tell what became of it: a word, an item, or None for no answer."""
    request = journal.request(
        name, {result: described(target(result)) for result in results}, **details
    )
    told: Items = {
        one: {"result": result} if isinstance(result, str) else result
        for one, result in results.items()
        if result is not None
    }
    if told:
        journal.outcome(request, told)
    return request


def elected(leader: int = 1, epoch: int = 6) -> dict[str, Any]:
    return {"result": "elected", "leader": leader, "leader_epoch": epoch, "rung": "redundant"}


def unknown(reason: str = TIMED_OUT) -> dict[str, Any]:
    return {"result": UNKNOWN, "reason": reason}


def saved(broker: int, records: int, path: str) -> dict[str, Any]:
    place = {"broker": broker, "records": records, "bytes": 4_096, "path": path}
    return {"result": SAVED, "reason": "", "saved": [place]}


def recovery(folder: Path, cluster: str = CLUSTER) -> Path:
    """One that rescued, elected three of four, and knows nothing of the last."""
    with Journal.open(cluster, folder) as journal:
        plan(journal, {LEDGER: "50", **dict.fromkeys(ORDERS, "0")})
        path = "rescues/prod-eu-1/topics/ledger/3"
        step(journal, RESCUE, {LEDGER: saved(2, 50, path)}, to="rescues/prod-eu-1")
        everyone = (LEDGER, *ORDERS)
        step(journal, REORDER, dict.fromkeys(everyone, "accepted"))
        step(journal, ELECT, {**dict.fromkeys(everyone, elected()), ORDERS[2]: unknown()})
        step(journal, RESTORE, dict.fromkeys((LEDGER, *ORDERS[:2]), "accepted"))
        journal.finish("partly failed")
    return journal.path


def interrupted(folder: Path, cluster: str = CLUSTER) -> Path:
    """One whose process was killed right after its election was sent."""
    with Journal.open(cluster, folder) as journal:
        plan(journal, dict.fromkeys(ORDERS, "0"), digest="")
        step(journal, REORDER, dict.fromkeys(ORDERS, "accepted"))
        step(journal, ELECT, dict.fromkeys(ORDERS))
    return journal.path


def group_reset(folder: Path, cluster: str = CLUSTER) -> Path:
    """One that put the offsets of a group back."""
    with Journal.open(cluster, folder) as journal:
        journal.consent("billing lose 0")
        request = journal.request(COMMIT, {LEDGER: {"from": 150, "to": 125}}, group="billing")
        journal.outcome(request, {LEDGER: {"result": "moved", "reason": ""}})
        journal.finish("succeeded")
    return journal.path


def hostile(folder: Path, cluster: str = CLUSTER) -> Path:
    """One whose names, phrases and reasons would act on a terminal."""
    with Journal.open(cluster, folder) as journal:
        partition = TopicPartition(HOSTILE, 0)
        plan(journal, {partition: "[bold]7[/]"}, digest="\x1b]0;owned\x07")
        journal.note("\x1b[31m[red]note[/red]" + 5_000 * "x")
        step(journal, ELECT, {partition: {"result": "[b]refused[/]", "reason": "\u202egnp.exe"}})
        journal.finish("[blink]done[/]\x1b[0m")
    return journal.path


def timed(path: Path, seconds: float = 1.0, begin_ms: int = BEGIN_MS) -> JournalView:
    """The journal with an entry each *seconds*, the first at *begin_ms*."""
    told = [
        {**json.loads(line), "at_ms": begin_ms + int(1_000 * number * seconds)}
        for number, line in enumerate(path.read_text().splitlines())
    ]
    path.write_text("".join(json.dumps(document) + "\n" for document in told))
    return read(path)
