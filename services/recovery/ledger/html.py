"""Writes the page of a ledger as one self-contained HTML file without active content."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from html import escape

from breakglass.services.recovery.ledger.page import LedgerPage, PageLines, PageTable
from breakglass.services.words.inert import inert

STYLE = """
body { font: 15px/1.45 system-ui, sans-serif; margin: 2em auto; max-width: 72em; padding: 0 1em;
  color: #1b1f24; background: #fff; }
h1 { font-size: 1.5em; } h2 { font-size: 1.1em; margin: 1.6em 0 .4em; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .1em 1em; }
dt { color: #57606a; } dd { margin: 0; overflow-wrap: anywhere; }
table { border-collapse: collapse; width: 100%; }
th, td { text-align: left; vertical-align: top; padding: .15em .8em .15em 0;
  border-bottom: 1px solid #d0d7de; overflow-wrap: anywhere; }
.n { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
.verdict { font-weight: 600; padding: .5em .8em; border-left: 4px solid #1a7f37; }
.wrong { border-color: #cf222e; color: #cf222e; }
@media (prefers-color-scheme: dark) { body { color: #e6edf3; background: #0d1117; }
  th, td { border-color: #30363d; } dt { color: #9da7b1; } .wrong { color: #ff7b72; } }
"""
POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
"""If a text escaped the escaping, this policy keeps it from loading or sending anything."""


def page_html(page: LedgerPage) -> str:
    """*page* as a document; every text on it is escaped."""
    return "\n".join(_document(page)) + "\n"


def _document(page: LedgerPage) -> Iterator[str]:
    yield "<!doctype html>"
    yield '<html lang="en"><head><meta charset="utf-8">'
    yield f'<meta http-equiv="Content-Security-Policy" content="{escape(POLICY)}">'
    yield '<meta name="viewport" content="width=device-width, initial-scale=1">'
    yield '<meta name="referrer" content="no-referrer">'
    yield f"<title>{_text(page.title)}</title><style>{STYLE}</style></head><body>"
    yield f"<h1>{_text(page.title)}</h1>"
    yield f'<p class="verdict{"" if page.adds_up else " wrong"}">{_text(page.verdict)}</p>'
    facts = "".join(f"<dt>{_text(label)}</dt><dd>{_text(told)}</dd>" for label, told in page.facts)
    yield f"<dl>{facts}</dl>"
    for block in page.blocks:
        if block.title:
            yield f"<h2>{_text(block.title)}</h2>"
        yield from _table(block) if isinstance(block, PageTable) else _lines(block)
    yield "</body></html>"


def _table(table: PageTable) -> Iterator[str]:
    yield "<table><thead>"
    yield _row(table.columns, table.right, "th")
    yield "</thead><tbody>"
    yield from (_row(row, table.right, "td") for row in table.rows)
    yield "</tbody></table>"


def _row(cells: Iterable[str], right: frozenset[int], tag: str) -> str:
    mark = ' class="n"'
    marked = (
        f"<{tag}{mark * (number in right)}>{_text(cell)}</{tag}>"
        for number, cell in enumerate(cells)
    )
    return f"<tr>{''.join(marked)}</tr>"


def _lines(block: PageLines) -> Iterator[str]:
    yield from (f"<p>{_text(line)}</p>" for line in block.lines)


def _text(text: str) -> str:
    return escape(inert(text))
