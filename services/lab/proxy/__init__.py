"""A TCP proxy before one broker or controller: cuts, hangs, lies and translates on demand."""

from services.lab.proxy.frames import SeenRequest
from services.lab.proxy.native import Native
from services.lab.proxy.proxy import Proxy

__all__ = ["Native", "Proxy", "SeenRequest"]
