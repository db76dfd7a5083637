"""`breakglass checkpoint delete` and `retain`: under guard, for nothing brings them back."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated

import typer

from console.checkpoint_options import Id, Store, all_in, found_in, store_at
from console.consent import Consent, Phrases
from console.option_values import duration_ms
from console.options import AsJson
from console.output import print_json, say

if TYPE_CHECKING:
    from services.checkpoint.store.backup_store import BackupStore

Write = Annotated[bool, typer.Option("--write", help="Allow this command to change the store.")]


def delete(
    id: Id,
    store: Store,
    write: Write = False,
    consent: Phrases = None,
    as_json: AsJson = False,
) -> None:
    """Delete a checkpoint, after your consent; its id is never used again.

    One that is being copied may be deleted, too: whoever copies it is refused from then on, and
    what it has copied goes. Deleting again removes what a killed deletion left; the consent to
    that was given.
    """
    opened = store_at(store)
    phrases = [] if opened.is_deleted(id) else [f"delete checkpoint {id} {_state(opened, id)}"]
    _require_write(write)
    Consent(tuple(consent or ())).require(phrases)
    opened.delete(id)
    if as_json:
        print_json({"schema": 1, "deleted": [id]})
    else:
        say(f"checkpoint {id} is deleted")


def retain(
    store: Store,
    keep: Annotated[
        int | None, typer.Option(min=1, help="The newest so many completed ones stay.")
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
    from services.checkpoint.store.retention import Retention, RetentionCandidate, expired
    from services.clock import now_ms

    opened = store_at(store)
    limits = Retention(keep, duration_ms(older_than, "--older-than"))
    held = [RetentionCandidate(one.id, one.status, one.created_at_ms) for one in all_in(opened)]
    going = expired(held, limits, now_ms())
    left = opened.deleted_with_rest()
    if delete and (going or left):
        _require_write(write)
        phrases = [f"delete {len(going):,} checkpoints"] if going else []
        Consent(tuple(consent or ())).require(phrases)
        for id in (*going, *left):
            opened.delete(id)
    if as_json:
        ids = {"checkpoints": list(going), "left_of_deleted": list(left)}
        print_json({"schema": 1, "deleted": delete, **ids})
        return
    if left:
        say(f"{'removed' if delete else 'to remove'}, left of deleted ones: {_listed(left)}")
    if going:
        say(f"{'deleted' if delete else 'may go'}: {_listed(going)}")
    else:
        say("No checkpoint may go.")


def _listed(ids: Iterable[int]) -> str:
    return ", ".join(map(str, ids))


def _state(opened: BackupStore, id: int) -> str:
    return found_in(opened, id).status


def _require_write(write: bool) -> None:
    from services.errors import ReadOnly

    if not write:
        raise ReadOnly("deleting checkpoints changes the store: add --write")
