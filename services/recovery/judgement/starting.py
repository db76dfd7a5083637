"""What is said before a broker is started whose disk nobody has read, in one place. Pure.

Being last in sync proves nothing about a disk: brokers acknowledge records before they flush them
(R26). And a broker that an election passed over truncates its log when it starts (R27).
"""

from __future__ import annotations

AS_IT_WAS = "its unread disk lost nothing"
IF_AS_IT_WAS = f"if {AS_IT_WAS}"
"""The condition of every sentence that says what an unread log brings back."""
IF_AS_THEY_WERE = "if their unread disks lost nothing"

COPY_FIRST = "breakglass rescue --source log:DIR"
"""Saves what a copied log folder holds."""
SAFE_WHEN = "breakglass return --source log:DIR"
"""Says what would be lost."""


def do_not_start(broker: int) -> str:
    """That *broker*, once it starts, truncates its logs to those of the leaders."""
    return f"do not start b{broker} before its log folder is copied: {COPY_FIRST}"


def rescue_before(broker: int) -> str:
    """The command that saves what *broker* cuts when it returns and leads."""
    return f"breakglass rescue --before-return {broker}"
