"""Who may see the dashboard: who has the token, on this machine too, where others have accounts.

A page of another site that the operator has open must not reach it through their browser: the
cookie goes with requests of the dashboard's own page alone, whose Origin a websocket has to have.
"""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from urllib.parse import urlencode

from aiohttp import hdrs, web

from breakglass.console.web.listener import HttpListener
from breakglass.services.errors import UsageError

COOKIE = "breakglass"
PARAMETER = "token"
PAGE = "/"
WHY = "Open the address with the token: `breakglass serve` prints it, or who runs it chose one."
SHORTEST = 16
"""Characters of a token that somebody chose."""
HEADERS = {
    hdrs.CACHE_CONTROL: "no-store",
    hdrs.CONTENT_SECURITY_POLICY: "default-src 'self'; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' data:; connect-src 'self' ws: wss:; "
    "frame-ancestors 'none'",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@dataclass(frozen=True, slots=True)
class Access:
    """What a request has to bring."""

    listener: HttpListener
    token: str
    own: bool = False
    """The operator chose the token: it is not printed."""
    behind_tls: bool = False
    """A proxy with TLS stands in front: browsers are asked for https and wss alone."""

    @classmethod
    def to(
        cls, listener: HttpListener, chosen: str | None = None, *, behind_tls: bool = False
    ) -> Access:
        """Decide what reaching *listener* takes; *chosen* is the operator's own token.

        Raises:
            UsageError: the token is too short to keep anyone out.
        """
        if chosen is None:
            return cls(listener, secrets.token_urlsafe(24), behind_tls=behind_tls)
        if len(chosen) < SHORTEST:
            raise UsageError(
                f"the token has {len(chosen)} characters, and needs {SHORTEST}: choose a longer one"
            )
        return cls(listener, chosen, own=True, behind_tls=behind_tls)

    def url(self, port: int) -> str:
        """Where to open it; the token is left out if the operator knows it."""
        token = "" if self.own else self.token
        return self.listener.url(port, f"{PAGE}?{urlencode({PARAMETER: token})}")

    @property
    def https(self) -> bool:
        """Whether browsers use https and wss alone: TLS ends here, or at a proxy in front."""
        return self.behind_tls or self.listener.tls is not None

    def permits(self, request: web.Request) -> bool:
        """Whether *request* may be answered."""
        given = request.query.get(PARAMETER) or request.cookies.get(COOKIE) or ""
        return hmac.compare_digest(_bytes(given), _bytes(self.token))

    def of_own_page(self, request: web.Request) -> bool:
        """Whether a websocket is asked for by the page this server has sent."""
        scheme = "https" if self.https else "http"
        return request.headers.get(hdrs.ORIGIN, "") == f"{scheme}://{request.host}"

    @web.middleware
    async def middleware(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Answer who may see it, and nobody else."""
        if not self.permits(request):
            raise web.HTTPForbidden(text=WHY, headers=HEADERS)
        if PARAMETER in request.query:
            return self._remembered(request)
        return await handler(request)

    def _remembered(self, request: web.Request) -> web.Response:
        """Move the token from the address, where others read it, into a cookie.

        The address is this server's page, whatever was asked for: `//evil.example/` is a path
        here, and another server in a browser.
        """
        if request.path != PAGE:
            raise web.HTTPNotFound(text="There is one page here.", headers=HEADERS)
        location = str(request.rel_url.without_query_params(PARAMETER))
        response = web.Response(status=303, headers={**HEADERS, hdrs.LOCATION: location})
        response.set_cookie(COOKIE, self.token, httponly=True, samesite="Strict", secure=self.https)
        return response


def _bytes(text: str) -> bytes:
    """*text* as bytes to compare; what came as bytes that are no UTF-8 is text that has none."""
    return text.encode("utf-8", "backslashreplace")
