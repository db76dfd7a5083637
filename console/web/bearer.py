"""The token of a server: where it is from, and whether a request brings it.

All servers ask for ``Authorization: Bearer TOKEN``, on this machine too: every account of a bastion
reaches its ports.
"""

from __future__ import annotations

import hmac
import os
import secrets
from pathlib import Path

from aiohttp import hdrs, web

from breakglass.console.output import say
from breakglass.services.connection.properties import read_private
from breakglass.services.errors import UsageError

SHORTEST = 16
"""Characters of a token that somebody chose."""
WITHOUT_TOKEN = "Send the token that this server was started with: Authorization: Bearer"  # noqa: S105


def bears(request: web.Request, token: str) -> bool:
    """Whether *request* brings *token*."""
    scheme, _, given = request.headers.get(hdrs.AUTHORIZATION, "").partition(" ")
    # Bytes that are no UTF-8 come as lone surrogates.
    sent = given.strip().encode("utf-8", "surrogateescape")
    return hmac.compare_digest(sent, token.encode()) and scheme.lower() == "bearer"


def token_of(variable: str, file: Path | None = None) -> str:
    """The token of the *file*, else of the environment's *variable*; else a new one, printed.

    Raises:
        UsageError: there are two tokens, or the token is too short or no token.
        Refused: others may read the file.
    """
    chosen = os.environ.pop(variable, None)
    if file is not None and chosen is not None:
        raise UsageError(f"{variable} and --token-file both name a token: leave one of them out.")
    where = variable
    if file is not None:
        chosen, where = read_private(file).strip(), str(file)
    if chosen is None:
        made = secrets.token_urlsafe(24)
        say(f"token: {made}")
        return made
    if len(chosen) < SHORTEST:
        raise UsageError(f"{where} has {len(chosen)} characters, and needs {SHORTEST}.")
    if not (chosen.isascii() and chosen.isprintable()) or " " in chosen:
        raise UsageError(f"{where} holds no token: write one line of letters and digits.")
    return chosen
