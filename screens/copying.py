"""Copying by OSC 52: the terminal gives no receipt, so nothing more is claimed than was sent."""

from __future__ import annotations

from breakglass.screens.messages import CopyAsked


def copied(message: CopyAsked) -> tuple[str, str]:
    """What is said after *message*'s text was sent: that it was, and why it may not arrive."""
    lines = message.text.count("\n") + 1
    size = f"{lines:,} lines" if lines > 1 else f"{len(message.text):,} characters"
    return (
        f"Sent to the clipboard (no receipt): {message.what} ({size}).",
        "If nothing arrives, the terminal or tmux refuses OSC 52.",
    )
