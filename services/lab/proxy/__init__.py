"""A TCP proxy before one broker or controller: cuts, hangs, lies and translates on demand."""

from breakglass.services.lab.proxy.frames import SeenRequest
from breakglass.services.lab.proxy.native import Native
from breakglass.services.lab.proxy.proxy import Proxy

__all__ = ["Native", "Proxy", "SeenRequest"]
