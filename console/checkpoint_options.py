"""The options that the commands of checkpoints share."""

from __future__ import annotations

from typing import Annotated

import typer

from breakglass.console import completion
from breakglass.console.options import PLACE, rate, waits
from breakglass.services.checkpoint.kafka.control import CONTROL_TOPIC
from breakglass.services.checkpoint.store.backup_store import (
    BackupStore,
    require_no_file,
    require_there,
)
from breakglass.services.checkpoint.store.documents import Level
from breakglass.services.checkpoint.store.stored import StoredCheckpoint
from breakglass.services.errors import UsageError

Store = Annotated[str, typer.Option("--store", metavar="URL", help=PLACE)]
CheckpointTopics = Annotated[
    list[str],
    typer.Option(
        "--topics",
        metavar="A,B",
        help="Names of topics (repeatable).",
        autocompletion=completion.topics,
    ),
]
ExplainedTopics = Annotated[
    list[str] | None,
    typer.Option(
        "--topics",
        metavar="A,B",
        help="Names of topics (repeatable).",
        autocompletion=completion.topics,
    ),
]
Id = Annotated[int, typer.Argument(min=1, metavar="ID", help="Id of the checkpoint.")]
Groups = Annotated[
    list[str] | None,
    typer.Option(
        "--group",
        metavar="NAME=POLICY",
        help="Consumer group on the topics: exactly-once, at-least-once, reader or left-out "
        "(repeatable).",
    ),
]
External = Annotated[
    list[str] | None,
    typer.Option(
        "--external",
        metavar="TOPIC",
        help="Topic that only clients outside the checkpoint write to (repeatable).",
        autocompletion=completion.topics,
    ),
]
Flows = Annotated[
    list[str] | None,
    typer.Option(
        "--flow",
        metavar="GROUP:A>B",
        help="Topics that a group reads and writes, for the level ordered (repeatable).",
    ),
]
ChosenLevel = Annotated[
    Level | None,
    typer.Option(
        help="What the checkpoint promises (default: the strongest promise that holds).",
        show_default=False,
    ),
]
ControlTopic = Annotated[
    str, typer.Option("--control-topic", metavar="TOPIC", help="Topic of ids and of owners' notes.")
]
HoldRetention = Annotated[
    bool,
    typer.Option(
        "--hold-retention",
        help="Stop the topics' retention until a checkpoint is copied; needs --write.",
    ),
]
Node = Annotated[
    int, typer.Option("--node", min=0, help="Number of this machine among the machines that copy.")
]
MaxRate = Annotated[
    float | None,
    rate("--max-rate", help="Maximum rate of reading, or unlimited.", shown="unlimited"),
]
Drain = Annotated[
    int,
    waits("60s", least_ms=100),
]
DRAIN_MS = 60_000
CONTROL = CONTROL_TOPIC


def store_at(address: str) -> BackupStore:
    """The store. Raises UsageError where the address is none, or a file's."""
    require_no_file(address)
    return BackupStore(address)


def all_in(store: BackupStore) -> tuple[StoredCheckpoint, ...]:
    """The checkpoints, the newest first.

    Raises UsageError: there is no such store; an empty one has none.
    """
    found = store.all()
    if not found:
        require_there(store.address)
    return found


def found_in(store: BackupStore, id: int) -> StoredCheckpoint:
    """The checkpoint. Raises UsageError: there is none of that id, or no such store."""
    found = store.read(id)
    if found is None:
        require_there(store.address)
        raise UsageError(f"There is no checkpoint {id} in {store.address}: run `checkpoint list`.")
    return found
