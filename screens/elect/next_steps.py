"""What is done after an election by a key: groups moved, records put back, all accounted for."""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence

from breakglass.screens.context import Context
from breakglass.screens.elect.progress import ElectionProgress
from breakglass.screens.guard.page import ActPage
from breakglass.services.recovery.acts.move_groups import MoveGroups

FILE = "elected.json"


class GroupsPage(ActPage):
    """Groups that committed past the end of a log are moved to it."""

    TITLE = "Groups past the end"
    ABOUT = (
        "Sets committed offsets that lie past the end of their log to that end, as `breakglass "
        "groups reset` does. Groups with running consumers are refused. The journal keeps what "
        "was committed before."
    )
    UNSAVED = "Offsets of groups are being moved."
    CHANGES = "groups"

    def __init__(self, context: Context) -> None:
        super().__init__(context, MoveGroups())


def put_back_command(progress: ElectionProgress, connection_words: Sequence[str]) -> str:
    """What appends the rescued records to the elected logs; empty where nothing was saved."""
    saved = [(result, place) for result in progress.rescued for place in result.saved]
    if not saved:
        return ""
    elections = {
        result.partition: {
            "topic": result.partition.topic,
            "partition": result.partition.partition,
            "designatedLeader": result.designee,
        }
        for result, _ in saved
    }
    # A folder of a rescue has a backup for each broker: b2/orders/3.
    store = saved[0][1].path.parents[2]
    told = shlex.quote(json.dumps({"partitions": list(elections.values())}))
    restore = ("breakglass", "backup", "restore", "--tail-of", FILE, "--store", str(store))
    return f"echo {told} > {FILE} && {shlex.join((*restore, '--write', *connection_words))}"
