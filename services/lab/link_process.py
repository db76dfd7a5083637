"""The process of one link: ``python -m services.lab.link_process FROM TO KEY,KEY RECORD``.

The process forwards until it is killed, but it forwards requests of the api KEYs only after
SIGUSR1. RECORD, the file that names its pid, identifies the process by its command line.
"""

from __future__ import annotations

import signal
import sys

from breakglass.services.lab.layout import Address
from breakglass.services.lab.proxy.proxy import Proxy

FETCH = 1
FOREVER = 1 << 31
ADDRESS_FREE = (4, 15)
"""From version 16 on a controller's answers say where it listens itself (KIP-853), and the
broker would fetch its metadata there, past the proxy."""


def main(arguments: list[str]) -> None:
    """Listen at the second address for what the first one serves."""
    upstream, listen = (_address(text) for text in arguments[:2])
    withheld = [int(key) for key in arguments[2].split(",") if key]
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})
    if withheld:
        with Proxy(upstream, listen, offers={FETCH: ADDRESS_FREE}) as proxy:
            for key in withheld:
                proxy.reset_next(key, FOREVER)
            signal.sigwait({signal.SIGUSR1})
    with Proxy(upstream, listen, offers={FETCH: ADDRESS_FREE}):
        while True:
            signal.pause()


def _address(text: str) -> Address:
    host, _, port = text.rpartition(":")
    return Address(host, int(port))


if __name__ == "__main__":
    main(sys.argv[1:])
