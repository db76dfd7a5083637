"""`breakglass checkpoint delete` and `retain`: under guard, for nothing brings them back."""

from __future__ import annotations

from typing import Annotated

import typer

from breakglass.console.checkpoint_options import Id, Store, all_in, found_in, store_at
from breakglass.console.consent import Consent, Phrases
from breakglass.console.guarded import GuardedCommand
from breakglass.console.option_values import duration_ms
from breakglass.console.options import AsJson
from breakglass.console.output import print_json, say

Write = Annotated[bool, typer.Option("--write", help="Allow this command to change the store.")]


def delete(
    id: Id,
    store: Store,
    write: Write = False,
    consent: Phrases = None,
    as_json: AsJson = False,
) -> None:
    """Delete a checkpoint, after your consent; its id is never used again.

    One that is being copied may be deleted, too: its copy worker is refused from then on, and
    what it has copied goes. Deleting again removes what a killed deletion left; the consent to
    that was given.
    """
    from breakglass.services.checkpoint.acts.delete import DeleteCheckpoint

    opened = store_at(store)
    if not opened.is_deleted(id):
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
    older_than: Annotated[
        str | None, typer.Option(metavar="AGE", help="Those may go that are older: 30d, 12h.")
    ] = None,
    delete: Annotated[
        bool, typer.Option("--delete", help="Delete them, after your consent.")
    ] = False,
    write: Write = False,
    consent: Phrases = None,
    as_json: AsJson = False,
) -> None:
    """List the checkpoints that may go by --keep or --older-than; with --delete, delete them.

    Without a limit none goes. The newest completed one never goes, nor one that is being copied.
    With --delete, what killed deletions have left goes, too.
    """
    from breakglass.services.checkpoint.acts.delete import DeleteExpired, listed
    from breakglass.services.checkpoint.store.retention import Retention

    opened = store_at(store)
    all_in(opened)
    limits = Retention(keep, duration_ms(older_than, "--older-than"))
    command = GuardedCommand(DeleteExpired(opened, limits), Consent(tuple(consent or ())))
    frozen = command.freeze()
    going, left = frozen.plan.going, frozen.plan.left
    if delete and (going or left):
        command.carry_out(frozen, write=write)
    if as_json:
        ids = {"checkpoints": list(going), "left_of_deleted": list(left)}
        print_json({"schema": 1, "deleted": delete, **ids})
        return
    if left:
        say(f"{'removed' if delete else 'to remove'}, left of deleted ones: {listed(left)}")
    if going:
        say(f"{'deleted' if delete else 'may go'}: {listed(going)}")
    else:
        say("No checkpoint may go.")
