"""Who may see the dashboard: this machine alone, or whoever has the token.

Beyond that, a page of another site that the operator has open must not reach it through their
browser: the Host has to be one that was meant, the Origin of a websocket the page's own.
"""

from __future__ import annotations

import hmac
import ipaddress
import secrets
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from urllib.parse import urlencode, urlsplit

from aiohttp import hdrs, web

from services.errors import UsageError

COOKIE = "breakglass"
PARAMETER = "token"
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

    host: str
    """The address the server listens on."""
    token: str | None = None
    """None: only requests to this machine's own names are answered."""

    @classmethod
    def for_host(cls, host: str, chosen: str | None = None) -> Access:
        """Decide what reaching *host* takes; *chosen* is the operator's own token.

        Raises:
            UsageError: the token is too short to keep anyone out.
        """
        if chosen is not None and len(chosen) < SHORTEST:
            raise UsageError(
                f"the token has {len(chosen)} characters, and needs {SHORTEST}: choose a longer one"
            )
        if chosen is None and not is_loopback(host):
            chosen = secrets.token_urlsafe(24)
        return cls(host, chosen)

    def url(self, port: int) -> str:
        """Where to open it, token and all."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        query = "" if self.token is None else f"?{urlencode({PARAMETER: self.token})}"
        return f"http://{host}:{port}/{query}"

    def permits(self, request: web.Request) -> bool:
        """Whether *request* may be answered."""
        if self.token is None:
            return is_loopback(_name(request.host))
        given = request.query.get(PARAMETER) or request.cookies.get(COOKIE) or ""
        return hmac.compare_digest(given.encode(), self.token.encode())

    @web.middleware
    async def middleware(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Answer who may see it, and nobody else."""
        if not self.permits(request):
            raise web.HTTPForbidden(text=self._why(), headers=HEADERS)
        if PARAMETER in request.query:
            return self._remembered(request)
        return await handler(request)

    def _remembered(self, request: web.Request) -> web.Response:
        """Move the token from the address, where others read it, into a cookie."""
        url = request.rel_url.without_query_params(PARAMETER)
        response = web.Response(status=303, headers={**HEADERS, hdrs.LOCATION: str(url)})
        response.set_cookie(COOKIE, self.token or "", httponly=True, samesite="Strict")
        return response

    def _why(self) -> str:
        if self.token is None:
            return "This dashboard is for this machine alone: open it by localhost."
        return "Open the address, token included, that `breakglass serve` has printed."


def is_loopback(host: str) -> bool:
    """Whether *host* is a name or an address of this machine that no other reaches."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def of_own_page(request: web.Request) -> bool:
    """Whether a websocket is asked for by the page this server has sent."""
    origin = request.headers.get(hdrs.ORIGIN, "")
    return urlsplit(origin).netloc == request.host


def _name(authority: str) -> str:
    """The host of ``host:port`` or ``[::1]:port``."""
    try:
        return urlsplit(f"//{authority}").hostname or ""
    except ValueError:
        return ""
