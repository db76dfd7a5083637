"""Serves checkpoints over HTTP until a signal: who may ask, and how it stops.

The first signal ends the server between two steps: requests under way are answered, partitions
under way are copied to their end, and the rest is left to be resumed. A second signal ends it at
once, which loses nothing either: a copy counts only once its manifest is written.
"""

from __future__ import annotations

import asyncio
import signal
from contextlib import nullcontext

from breakglass.console.output import say
from breakglass.console.web.checkpoint_api import CheckpointApi
from breakglass.console.web.listener import SIGNALS, HttpListener, serve_until_signal
from breakglass.services import patience
from breakglass.services.checkpoint.serving import Serving
from breakglass.services.checkpoint.zeebe_api import BACKUPS
from breakglass.services.topic_backup.manifest import tool_version

ANSWER_SECONDS = patience.START + patience.COMMAND
"""How long a request that is under way may take to be answered after a signal."""


def serve_checkpoints(
    serving: Serving, token: str, listener: HttpListener, *, writable: bool
) -> None:
    """Serve until a signal. Raises UsageError where it cannot listen."""
    api = CheckpointApi(
        serving,
        token,
        writable=writable,
        version=tool_version(),
        errors=serving.troubles.counts if writable else None,
        behind=lambda: serving.lag.now,
    )
    with serving.running() if writable else nullcontext():
        asyncio.run(_until_a_signal(api, serving, listener))


async def _until_a_signal(api: CheckpointApi, serving: Serving, listener: HttpListener) -> None:
    loop = asyncio.get_running_loop()

    def stopping() -> None:
        say(
            "stopping: requests and partitions under way are ended first; a second signal ends "
            "the server at once"
        )
        for number in SIGNALS:
            loop.remove_signal_handler(number)
            signal.signal(number, signal.SIG_DFL)
        serving.stop()

    await serve_until_signal(
        api.application(),
        listener,
        lambda port: say(f"Serving {listener.url(port, BACKUPS)}"),
        stopping,
        ANSWER_SECONDS,
    )
