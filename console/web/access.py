"""Who may see the dashboard: who has the token, on this machine too, where others have accounts.

A browser sends cookies to every port of a host, other accounts' too, and remembers addresses. So
the page, which holds nothing, asks for the token, and exchanges it for a key that it alone has: the
key opens the page's websocket, and this server forgets it when it ends.
A page of another site that the operator has open must not reach the dashboard through their
browser: requests have to name one of its hosts, and keys go to its own page.
"""

from __future__ import annotations

import secrets
from ipaddress import ip_address
from urllib.parse import urlsplit

from aiohttp import hdrs, web

from breakglass.console.web.listener import Handler, HttpListener, bears

PROTOCOL = "breakglass"
"""The websocket's protocol; the key of the page is named beside it."""
WHY = "Type the token that `breakglass serve` printed, or that who runs it chose."
ELSEWHERE = "Open the dashboard's own page."
KEYS = 64
"""Pages that are known at once: open ones, and ones that may be loaded again."""


class Access:
    """What a request has to bring; *names*: hosts by which browsers reach the dashboard."""

    def __init__(
        self,
        listener: HttpListener,
        token: str,
        names: tuple[str, ...] = (),
        *,
        behind_tls: bool = False,
    ) -> None:
        self.listener, self._token = listener, token
        self._names = {name.casefold() for name in (*names, listener.host, "localhost")}
        self._https = behind_tls or listener.tls is not None
        """TLS ends here, or at a proxy in front: browsers use https and wss alone."""
        self._keys: dict[str, None] = {}
        """Of pages, the oldest first."""

    @web.middleware
    async def middleware(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Answer requests for this host: a name that leads here may be anybody's."""
        try:
            name = urlsplit(f"//{request.host}").hostname or ""
            # No name server has a say in an address.
            ours = name in self._names or bool(ip_address(name))
        except ValueError:
            ours = False
        if not ours:
            raise web.HTTPMisdirectedRequest(
                text="This name is not one of the dashboard's: start it with --allowed-host."
            )
        return await handler(request)

    def new_key(self, request: web.Request) -> str:
        """The key of a page that brings the token, or the key of its last loading, which ends.

        Raises:
            web.HTTPException: it is another site's page, or brings neither.
        """
        self.require_own_page(request)
        known = next((key for key in self._keys if bears(request, key)), None)
        if known is None and not bears(request, self._token):
            raise web.HTTPUnauthorized(text=WHY)
        for ended in (known, *list(self._keys)[: len(self._keys) - KEYS + 1]):
            self._keys.pop(ended or "", None)
        key = secrets.token_urlsafe(24)
        self._keys[key] = None
        return key

    def key_of(self, request: web.Request) -> str:
        """The key that a websocket brings. Raises web.HTTPException where it brings none."""
        self.require_own_page(request)
        offered = request.headers.get(hdrs.SEC_WEBSOCKET_PROTOCOL, "").split(",")
        given = {one.strip() for one in offered}
        for key in self._keys:
            if key in given:
                return key
        raise web.HTTPForbidden(text=WHY)

    def require_own_page(self, request: web.Request) -> None:
        """Return if the page that this server has sent asks; raises web.HTTPForbidden if not."""
        scheme = "https" if self._https else "http"
        if request.headers.get(hdrs.ORIGIN, "") != f"{scheme}://{request.host}":
            raise web.HTTPForbidden(text=ELSEWHERE)
