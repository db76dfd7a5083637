"""`breakglass checkpoint verify`: every byte of a checkpoint read and compared, by no broker."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from breakglass.console.checkpoint_documents import verification
from breakglass.console.checkpoint_options import Id, Store, found_in, store_at
from breakglass.console.options import AsJson
from breakglass.console.output import print_json, say

if TYPE_CHECKING:
    from breakglass.services.checkpoint.store.documents import VerifiedDocument
    from breakglass.services.checkpoint.store.stored import StoredCheckpoint


def verify(id: Id, store: Store, as_json: AsJson = False) -> None:
    """Read every file of a completed checkpoint, and compare it with what was committed.

    Of each partition the copy that a restore would take: its files by size and SHA-256, where it
    ends by the cut, its log by the leader epoch. No broker is asked. What came of it is kept in
    the store, where list, status and the console show it. Ends with 1 when anything is damaged.
    """
    from breakglass.services.checkpoint.failure_text import name_of
    from breakglass.services.checkpoint.spark.verifying import verify as verified

    opened = store_at(store)
    found = found_in(opened, id)
    names = {one.number: name_of(one) for one in found.partitions}
    done = verified(
        opened, found, lambda number, wrong: say(f"{names[number]}  {wrong or 'whole'}")
    )
    if as_json:
        print_json({"schema": 1, "id": id, **verification(done)})
    else:
        _print(found, done)
    raise typer.Exit(1 if done.damage else 0)


def _print(found: StoredCheckpoint, done: VerifiedDocument) -> None:
    say(f"{done.files:,} files with {done.size:,} bytes were read")
    if not done.damage:
        say(f"checkpoint {found.id} is as it was committed")
        return
    say(
        f"checkpoint {found.id} is damaged in {len(done.damage):,} of {len(found.partitions):,} "
        "partitions: bring the files back from another copy of the store, or take a checkpoint "
        "with a new id"
    )
