"""A TCP proxy before one broker or controller: cuts, hangs and lies on demand."""

from breakglass.services.lab.proxy.proxy import Proxy, SeenRequest

__all__ = ["Proxy", "SeenRequest"]
