"""The server of `breakglass exporter`: ``GET /metrics``, for requests that bring the token."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from aiohttp import hdrs, web

from breakglass.console.web.listener import WITHOUT_TOKEN, Handler, bears
from breakglass.services.monitoring.meters import CONTENT_TYPE

PATH = "/metrics"


def metrics_application(answer: Callable[[], bytes], token: str) -> web.Application:
    """What aiohttp runs; *answer* makes each answer, in a thread."""

    @web.middleware
    async def admit(request: web.Request, handler: Handler) -> web.StreamResponse:
        if not bears(request, token):
            headers = {hdrs.WWW_AUTHENTICATE: "Bearer"}
            raise web.HTTPUnauthorized(text=WITHOUT_TOKEN, headers=headers)
        return await handler(request)

    async def metrics(_: web.Request) -> web.Response:
        body = await asyncio.to_thread(answer)
        return web.Response(body=body, headers={hdrs.CONTENT_TYPE: CONTENT_TYPE})

    application = web.Application(middlewares=[admit])
    application.add_routes([web.get(PATH, metrics)])
    return application
