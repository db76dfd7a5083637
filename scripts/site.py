"""Build the site of the documentation: ``build/site``, strictly, and without a network.

``python -m scripts.site`` copies docs/ to ``build/pages``, with the pages of the root that are in
the menu of ``zensical.toml``, and builds that. A link that leads out of docs/ leads to the copy of
the page; to source code, which the site does not have, its text is left without a link. A page
that the menu lacks, and a link or an anchor that leads nowhere, ends it with 1.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

from scripts.links import FENCE

ROOT = Path(__file__).resolve().parent.parent
SETTINGS = ROOT / "zensical.toml"
DOCS = ROOT / "docs"
PROJECT = "project"
"""The folder of the site for the pages of the root."""
OUTWARD = re.compile(r"\[([^\]]+)\]\(\.\./([^)#\s]+)(#[^)\s]*)?\)")


def menu(settings: Path = SETTINGS) -> list[str]:
    """The pages of the menu, in order."""
    return list(_paths(tomllib.loads(settings.read_text(encoding="utf-8"))["project"]["nav"]))


def _paths(entry: object) -> Iterator[str]:
    match entry:
        case str():
            yield entry
        case list():
            for one in entry:
                yield from _paths(one)
        case dict():
            for one in entry.values():
                yield from _paths(one)


def wrong() -> list[str]:
    """What is in the menu and no page, and the pages that the menu lacks."""
    named = menu()
    there = {str(page.relative_to(DOCS)) for page in DOCS.rglob("*.md")}
    there |= {f"{PROJECT}/{page.name}" for page in ROOT.glob("*.md")} & {*named}
    return sorted({*named} ^ there)


def inward(text: str, pages: set[str]) -> str:
    """The *text* of a page of docs/, with links out of docs/ turned to *pages* of the site."""

    def turned(link: re.Match[str]) -> str:
        label, place, anchor = link.groups()
        if place == "README.md":
            return f"[{label}](index.md)"
        page = f"{PROJECT}/{place}"
        return f"[{label}]({page}{anchor or ''})" if page in pages else label

    parts = re.split(rf"({FENCE.pattern})", text, flags=FENCE.flags)
    return "".join(part if part.startswith("```") else OUTWARD.sub(turned, part) for part in parts)


def of_the_root(text: str, pages: set[str]) -> str:
    """The *text* of a page of the root, as a page of the site's folder for these."""
    moved = re.sub(r"\]\((?!\w+://|#)(?!docs/)([^)\s]+)\)", r"](../../\1)", text)
    moved = moved.replace("](docs/", "](../")
    known = "|".join(re.escape(page.removeprefix(f"{PROJECT}/")) for page in pages)
    moved = re.sub(rf"\]\(\.\./\.\./({known})(#[^)]*)?\)", r"](\1\2)", moved)
    moved = re.sub(r"\[([^\]]+)\]\(\.\./\.\./[^)]*\)", r"\1", moved)
    return re.sub(r"\[([^\]]+)\]\(\.\./(?!\w[\w./-]*\.md)[^)]*\)", r"\1", moved)


def stage(folder: Path) -> None:
    """Make *folder* what the site is built from."""
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(DOCS, folder)
    (folder / PROJECT).mkdir()
    pages = {page for page in menu() if page.startswith(f"{PROJECT}/")}
    for page in folder.glob("*.md"):
        page.write_text(inward(page.read_text(encoding="utf-8"), pages), encoding="utf-8")
    for name in pages:
        text = (ROOT / Path(name).name).read_text(encoding="utf-8")
        (folder / name).write_text(of_the_root(text, pages), encoding="utf-8")


def main() -> int:
    """Build the site; returns the exit code."""
    strangers = wrong()
    if strangers:
        print(f"Only in the menu of {SETTINGS.name}, or only in docs: {', '.join(strangers)}")
        return 1
    stage(ROOT / "build" / "pages")
    build = ("-m", "zensical", "build", "--clean", "--strict", "--config-file", str(SETTINGS))
    done = subprocess.run((sys.executable, *build), cwd=ROOT, capture_output=True, text=True)
    if done.returncode:
        print(re.sub(r"\x1b\[[0-9;]*m", "", done.stdout + done.stderr.partition("Traceback")[0]))
    else:
        print("The site is in build/site: open build/site/index.html.")
    return done.returncode


if __name__ == "__main__":
    sys.exit(main())
