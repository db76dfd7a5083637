"""Check the links of the documentation: each relative link leads to a file, and to a heading of it.

Links to other hosts are not followed: the check needs no network.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LINK = re.compile(r"\]\(([^)\s]+)\)")
FENCE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)


def pages(root: Path = ROOT) -> list[Path]:
    """Every page of the documentation."""
    return sorted([*root.glob("*.md"), *(root / "docs").rglob("*.md")])


def broken(page: Path) -> Iterator[str]:
    """The links of *page* that lead nowhere."""
    for link in LINK.findall(FENCE.sub("", page.read_text(encoding="utf-8"))):
        place, _, heading = link.partition("#")
        if "://" in link:
            continue
        target = page if not place else page.parent / place
        if not target.exists() or (heading and heading not in _anchors(target)):
            yield link


def _anchors(page: Path) -> set[str]:
    """The anchors of *page*, and its headings as GitHub links them, a second one with a number."""
    text = FENCE.sub("", page.read_text(encoding="utf-8"))
    found: set[str] = set(re.findall(r'<a id="([\w-]+)">', text))
    for heading in HEADING.findall(text):
        words = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).strip().lower()
        anchor = re.sub(r"[^\w\- ]", "", words).replace(" ", "-")
        number = 1
        unique = anchor
        while unique in found:
            unique = f"{anchor}-{number}"
            number += 1
        found.add(unique)
    return found


def main(found: Sequence[Path] | None = None) -> int:
    """Print the links that lead nowhere; returns the exit code."""
    wrong = [(page, link) for page in found or pages() for link in broken(page)]
    for page, link in wrong:
        print(f"{page.relative_to(ROOT)}: {link} leads nowhere")
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
