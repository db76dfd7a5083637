"""Makes and writes the ledger of a journal, in a thread, for every screen that shows one."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from breakglass.screens.context import Context
from breakglass.screens.journal.messages import LedgerMade, TimelineSaved
from breakglass.services.errors import BreakglassError
from breakglass.services.state_folder import state_folder

if TYPE_CHECKING:
    from breakglass.services.recovery.ledger.page import LedgerPage

ANSWER_SECONDS = 10.0
"""For the leaders of now to say what they hold."""


def made_ledger(context: Context, journal: Path) -> LedgerMade:
    """The ledger of *journal*: reads folders of rescues, and asks the leaders of now."""
    from breakglass.services.recovery.ledger.assemble import ledger_of
    from breakglass.services.recovery.ledger.page import ledger_page
    from breakglass.services.recovery.ledger.sources import gathered, with_cluster
    from breakglass.services.recovery.timeline.shelf import account_of

    try:
        account = account_of(journal)
        sources = gathered(account, context.state_folder)
        try:
            with context.reading() as client:
                sources = with_cluster(sources, client, ANSWER_SECONDS)
        except BreakglassError as error:
            sources = sources.noting(f"the cluster was not asked: {error}")
        return LedgerMade(ledger_page(ledger_of(sources)), account.brief.name)
    except BreakglassError as error:
        return LedgerMade(None, trouble=str(error))
    except Exception as error:  # noqa: BLE001 -- a thread ends here, the screen shows it
        told = f"The ledger cannot be made ({type(error).__name__}: {error})."
        return LedgerMade(None, trouble=told)


def saved_ledger(context: Context, page: LedgerPage, name: str) -> TimelineSaved:
    """*page*, written as HTML."""
    from breakglass.services.recovery.ledger.html import page_html

    return saved_text(context, page_html(page), name, "ledgers", ".html")


def saved_text(
    context: Context, text: str, name: str, folder: str, suffix: str = ".txt"
) -> TimelineSaved:
    """*text*, written into a *folder* of the state folder."""
    from breakglass.services.recovery.timeline.saving import save_timeline

    place = (context.saving_folder or state_folder()) / folder
    try:
        return TimelineSaved(save_timeline(text, place, name, suffix))
    except BreakglassError as error:
        return TimelineSaved(trouble=str(error))
