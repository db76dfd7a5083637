"""The options that the commands of checkpoints share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from breakglass.services.checkpoint.kafka.control import CONTROL_TOPIC

if TYPE_CHECKING:
    from breakglass.services.checkpoint.store.backup_store import BackupStore
    from breakglass.services.checkpoint.store.stored import StoredCheckpoint

Store = Annotated[
    str,
    typer.Option("--store", metavar="URL", help="Folder of the checkpoints, or s3://BUCKET/..."),
]
Topics = Annotated[
    str, typer.Option("--topics", metavar="A,B", help="Topics, with commas between.")
]
Id = Annotated[int, typer.Argument(min=1, metavar="ID", help="The checkpoint's id.")]
Groups = Annotated[
    list[str] | None,
    typer.Option(
        "--group",
        metavar="NAME=POLICY",
        help="A group that gets its offsets with it: exactly-once, or at-least-once (repeatable).",
    ),
]
ControlTopic = Annotated[
    str,
    typer.Option("--control-topic", metavar="TOPIC", help="Where ids and owners' notes are kept."),
]
Node = Annotated[
    int, typer.Option("--node", min=0, help="The number of this machine among those that copy.")
]
MaxRate = Annotated[
    str | None,
    typer.Option("--max-rate", metavar="20MB/s", help="Maximum copy rate (default: unlimited)."),
]
Drain = Annotated[
    float,
    typer.Option(
        "--drain",
        min=0.1,
        metavar="SECONDS",
        help="Seconds to wait for groups to catch up to the cut.",
    ),
]
CONTROL = CONTROL_TOPIC


def store_at(address: str) -> BackupStore:
    """The store. Raises UsageError where the address is none, or a file's."""
    from breakglass.services.checkpoint.store.backup_store import BackupStore
    from breakglass.services.checkpoint.store_address import require_no_file

    require_no_file(address)
    return BackupStore(address)


def all_in(store: BackupStore) -> tuple[StoredCheckpoint, ...]:
    """The checkpoints, the newest first.

    Raises:
        UsageError: there is no such store; an empty one has none.
    """
    from breakglass.services.checkpoint.store_address import require_there

    found = store.all()
    if not found:
        require_there(store.address)
    return found


def found_in(store: BackupStore, id: int) -> StoredCheckpoint:
    """The checkpoint.

    Raises:
        UsageError: there is none of that id, or no such store.
    """
    from breakglass.services.checkpoint.store_address import require_there
    from breakglass.services.errors import UsageError

    found = store.read(id)
    if found is None:
        require_there(store.address)
        raise UsageError(f"There is no checkpoint {id} in {store.address}: run `checkpoint list`.")
    return found
