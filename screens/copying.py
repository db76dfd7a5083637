"""Copying by OSC 52: the terminal gives no receipt, so nothing more is claimed than was sent."""

from __future__ import annotations

from screens.messages import CopyAsked


def copied(message: CopyAsked) -> str:
    """What is told after *message*'s text was sent."""
    lines = message.text.count("\n") + 1
    size = f"{lines} lines" if lines > 1 else f"{len(message.text)} characters"
    return (
        f"Sent {message.what} ({size}) to the terminal's clipboard. It gives no receipt: if "
        "nothing arrives, the terminal or tmux refuses OSC 52."
    )
