"""A TCP proxy before one broker or controller: cuts, hangs and lies on demand."""

from breakglass.services.lab.proxy.frames import SeenRequest
from breakglass.services.lab.proxy.proxy import Proxy

__all__ = ["Proxy", "SeenRequest"]
