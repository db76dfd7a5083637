"""Looks for no garbage while the console starts: what is made then stays as long as the session.

Python would look through all that is imported, again and again, before the first frame.
"""

from __future__ import annotations

import gc


def put_off() -> None:
    """Collect no garbage until `resume`."""
    gc.disable()


def resume() -> None:
    """Collect garbage from now on, and leave out what is there by now; no effect a second time."""
    if not gc.isenabled():
        gc.freeze()
        gc.enable()
