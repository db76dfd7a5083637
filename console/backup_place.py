"""The options that say where a backup is and how it is kept, shared by its commands."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from breakglass.services.topic_backup.store.key import Key
    from breakglass.services.topic_backup.store.store import Store

Source = Annotated[str, typer.Option("--from", metavar="URL", help="Folder of the backup.")]
OnlyTopics = Annotated[
    str | None, typer.Option("--topics", metavar="A,B", help="Only these topics.")
]
EncryptKey = Annotated[
    str | None,
    typer.Option(
        "--encrypt-key",
        metavar="FILE|env:NAME",
        help="Where the key of an encrypted backup is: a file, or an environment variable.",
    ),
]


def place(address: str, key_from: str | None) -> Store:
    """The place of a backup.

    Raises:
        UsageError: it is none, or there is no key where it should be.
    """
    from breakglass.services.topic_backup.store.store import open_store

    return open_store(address, key_of(key_from))


def key_of(key_from: str | None) -> Key | None:
    """The key that the option names. Raises as `place`."""
    from breakglass.services.topic_backup.store.key import read_key

    return read_key(key_from) if key_from is not None else None
