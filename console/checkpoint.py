"""The command `breakglass checkpoint`: consistent checkpoints of topics and groups (ZEP-008).

`verify` asks no broker; `delete` and `retain` are under guard, because nothing brings them back.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from breakglass.console.checkpoint_documents import verification
from breakglass.console.checkpoint_explain import explain
from breakglass.console.checkpoint_finish import finish
from breakglass.console.checkpoint_list import list_all, status
from breakglass.console.checkpoint_options import Id, Store, all_in, found_in, store_at
from breakglass.console.checkpoint_restore import restore_checkpoint
from breakglass.console.checkpoint_serve import serve
from breakglass.console.checkpoint_take import take
from breakglass.console.commands import new_app
from breakglass.console.consent import Consent, Phrases
from breakglass.console.guarded import GuardedCommand
from breakglass.console.options import AsJson, OldDelete, OlderThan
from breakglass.console.output import print_json, say

if TYPE_CHECKING:
    from breakglass.services.checkpoint.store.documents import VerifiedDocument
    from breakglass.services.checkpoint.store.stored import StoredCheckpoint


def verify(id: Id, store: Store, as_json: AsJson = False) -> None:
    """Read every file of a completed checkpoint, and compare it with what was committed.

    For each partition, the copy that a restore would use is checked: files by size and SHA-256, the
    end by the cut, the log by the leader epochs. No broker is asked. The store keeps the result;
    list, status and the console show it. Ends with 1 when anything is damaged.
    """
    from breakglass.services.checkpoint.spark.restore import verify as verified
    from breakglass.services.checkpoint.wording import name_of

    opened = store_at(store)
    found = found_in(opened, id)
    names = {part.number: name_of(part) for part in found.partitions}
    done = verified(
        opened, found, lambda number, wrong: say(f"{names[number]}  {wrong or 'whole'}")
    )
    if as_json:
        print_json({"schema": 1, "id": id, "proved": found.proved, **verification(done)})
    else:
        _print(found, done)
    raise typer.Exit(1 if done.damage else 0)


def _print(found: StoredCheckpoint, done: VerifiedDocument) -> None:
    from breakglass.services.checkpoint.wording import NOT_PROVED

    say(f"{done.files:,} files with {done.size:,} bytes were read")
    if not done.damage:
        if found.proved:
            say(f"checkpoint {found.id} is as it was committed: its documents by their sums too")
        else:
            say(f"checkpoint {found.id} has the files that were committed. {NOT_PROVED}")
        return
    say(
        f"checkpoint {found.id} is damaged in {len(done.damage):,} of {len(found.partitions):,} "
        "partitions: bring the files back from another copy of the store, or take a checkpoint "
        "with a new id"
    )


Write = Annotated[bool, typer.Option("--write", help="Delete it, after your consent.")]


def delete(
    id: Id,
    store: Store,
    write: Write = False,
    consent: Phrases = None,
    as_json: AsJson = False,
) -> None:
    """Delete a checkpoint, after your consent; its id is never used again.

    A checkpoint that is being copied may be deleted: its worker is refused from then on, and the
    copied files are deleted. Deleting again completes an interrupted deletion, without a new
    consent.
    """
    from breakglass.services.checkpoint.acts.delete import DeleteCheckpoint

    opened = store_at(store)
    if id not in opened.ids():
        found_in(opened, id)
    command = GuardedCommand(DeleteCheckpoint(opened, id), Consent(tuple(consent or ())))
    frozen = command.freeze()
    command.carry_out(frozen, write=write)
    if as_json:
        print_json({"schema": 1, "deleted": [id]})
    else:
        say(f"checkpoint {id} is deleted")


def retain(
    store: Store,
    keep: Annotated[
        int | None, typer.Option(min=1, help="Keep the newest N completed checkpoints.")
    ] = None,
    older_than: OlderThan = None,
    write: Annotated[
        bool, typer.Option("--write", help="Delete them, after your consent.")
    ] = False,
    delete: OldDelete = False,
    consent: Phrases = None,
    as_json: AsJson = False,
) -> None:
    """List the checkpoints that --keep and --older-than select; with --write, delete them.

    Without these options, no checkpoint is selected. The newest completed checkpoint always stays,
    and so do checkpoints that are being copied. --write also completes interrupted deletions.
    """
    from breakglass.services.checkpoint.acts.delete import DeleteExpired, listed
    from breakglass.services.checkpoint.store.backup_store import Retention

    opened = store_at(store)
    all_in(opened)
    limits = Retention(keep, older_than)
    command = GuardedCommand(DeleteExpired(opened, limits), Consent(tuple(consent or ())))
    frozen = command.freeze()
    going, left = frozen.plan.going, frozen.plan.left
    deleting = write or delete
    if deleting and (going or left):
        command.carry_out(frozen, write=write)
    if as_json:
        ids = {"checkpoints": list(going), "left_of_deleted": list(left)}
        print_json({"schema": 1, "deleted": deleting, **ids})
        return
    if left:
        say(f"{'removed' if deleting else 'to remove'}, left of deleted ones: {listed(left)}")
    if going:
        say(f"{'deleted' if deleting else 'may be deleted'}: {listed(going)}")
    else:
        say("No checkpoint may be deleted.")


app = new_app("Take, watch, delete and restore consistent checkpoints of topics and groups.")
app.command()(explain)
app.command()(take)
app.command()(finish)
app.command()(status)
app.command("list")(list_all)
app.command()(verify)
app.command("restore")(restore_checkpoint)
app.command()(delete)
app.command()(retain)
app.command()(serve)


@app.callback()
def checkpoint() -> None:
    """Take, watch, delete and restore consistent checkpoints of topics and groups."""
