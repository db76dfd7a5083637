"""`breakglass metastore verify`: whether a backup is what it was when it was written."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from breakglass.console.metastore_options import BackupFile
from breakglass.console.options import AsJson
from breakglass.console.output import print_json, say

if TYPE_CHECKING:
    from breakglass.services.metastore.verification import MetastoreVerification


def verify(
    file: BackupFile,
    digest: Annotated[
        str | None,
        typer.Option(
            "--digest", metavar="HEX", help="The output of an earlier verify, to compare with."
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Check every line of a backup, and by its side file that nothing was changed since.

    Lines are checked as a restore checks them. The chain of hashes beside the backup finds bit rot
    and every change that did not rewrite the chain as well; the digest, noted elsewhere, finds
    those too. Ends with 1 when something is wrong.
    """
    from breakglass.services.metastore.verification import verify_backup

    verified = verify_backup(file)
    matches = digest is None or digest.lower() == verified.digest
    if as_json:
        print_json(_document(verified, matches=matches))
    else:
        _print(verified, matches=matches)
    raise typer.Exit(0 if verified.whole and matches else 1)


def _document(verified: MetastoreVerification, *, matches: bool) -> dict[str, Any]:
    header = verified.header
    return {
        "schema": 1,
        "file": verified.file,
        "bytes": verified.bytes,
        "commands": verified.commands,
        "whole": verified.whole and matches,
        "findings": verified.findings,
        "untold": verified.untold,
        "chain": {
            "noted": verified.noted,
            "changed_lines": verified.changed,
            "missing": verified.missing,
            "unnoted_bytes": verified.unnoted_bytes,
            "digest": verified.digest,
            "matches": matches,
            "unread": verified.side,
        },
        "topic": None if header is None else header.topic,
        "topic_id": None if header is None else header.topic_id,
        "diverged": None if header is None else header.diverged or None,
    }


def _print(verified: MetastoreVerification, *, matches: bool) -> None:
    for one in verified.findings:
        say(str(one))
    for line in verified.changed:
        say(_changed(line))
    if verified.untold:
        say(f"{verified.untold:,} more findings are not shown")
    if verified.missing:
        say(f"{verified.missing:,} commands are missing at the end, the side file notes them")
    if verified.unnoted_bytes:
        say(f"the last {verified.unnoted_bytes:,} bytes are not in the side file (yet)")
    if verified.side:
        say(f"no chain to check: {verified.side}")
    if not matches:
        say("the digest is another: lines or the side file were changed or added since")
    state = "whole" if verified.whole and matches else "NOT WHOLE"
    print(f"{state}  {verified.commands:,} commands  digest {verified.digest or '-'}")


def _changed(line: int) -> str:
    if line == 0:
        return "the side file's first line was changed"
    return f"line {line} of the backup, or its entry in the side file, was changed"
