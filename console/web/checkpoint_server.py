"""The server behind `breakglass checkpoint serve`: on this machine alone, until a signal."""

from __future__ import annotations

import asyncio
import signal
from contextlib import nullcontext

from aiohttp import web

from breakglass.console.output import say
from breakglass.console.web.access import tell_no_versions
from breakglass.console.web.checkpoint_api import CheckpointApi
from breakglass.services.checkpoint.serving import Serving
from breakglass.services.errors import UsageError
from breakglass.services.topic_backup.manifest import tool_version


def serve_checkpoints(serving: Serving, token: str, port: int, *, writable: bool) -> None:
    """Serve until a signal. Raises UsageError where it cannot listen."""
    api = CheckpointApi(
        serving,
        token,
        writable=writable,
        version=tool_version(),
        errors=serving.troubles.counts if writable else None,
        behind=lambda: serving.lag.now,
    )

    async def run() -> None:
        stop = asyncio.Event()
        for one in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            asyncio.get_running_loop().add_signal_handler(one, stop.set)
        tell_no_versions()
        runner = web.AppRunner(api.application(), access_log=None)
        await runner.setup()
        try:
            site = web.TCPSite(runner, "127.0.0.1", port)
            await site.start()
            bound = runner.addresses[0][1]
            say(f"Serving http://127.0.0.1:{bound}/actuator/backups")
            await stop.wait()
        finally:
            await runner.cleanup()

    try:
        with serving.running() if writable else nullcontext():
            asyncio.run(run())
    except OSError as error:
        raise UsageError(
            f"cannot listen on 127.0.0.1, port {port} ({error.strerror}): choose another"
        ) from None
