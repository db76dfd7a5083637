"""Looks at this machine: Java, locale, what is installed, space for a rescue."""

from __future__ import annotations

import locale
import os
import platform
import shutil
from importlib.util import find_spec
from pathlib import Path

from breakglass.services.doctor.facts import MachineFacts, TerminalFacts
from breakglass.services.errors import PipelineError
from breakglass.services.extras import EXTRAS
from breakglass.services.model import Unknown


def machine_facts(version: str, terminal: TerminalFacts, rescue_folder: Path) -> MachineFacts:
    """What this machine has; *version* is that of Breakglass."""
    place = _there(rescue_folder)
    return MachineFacts(
        version=version,
        python=platform.python_version(),
        terminal=terminal,
        encoding=locale.getpreferredencoding(False),
        locale_problem=_locale_problem(),
        missing={extra: lacking for extra in EXTRAS if (lacking := _lacking(extra))},
        java=_java(),
        rescue_folder=str(rescue_folder),
        free_bytes=_free(place),
        writable=os.access(place, os.W_OK | os.X_OK),
    )


def _lacking(extra: str) -> tuple[str, ...]:
    return tuple(package for package in EXTRAS[extra] if find_spec(package) is None)


def _java() -> str | Unknown:
    from breakglass.services.pipeline.java import find_java

    try:
        return str(find_java())
    except PipelineError as error:
        return Unknown(str(error))


def _locale_problem() -> str:
    """Why the locale of the environment cannot be used; the locale stays as it was."""
    before = locale.setlocale(locale.LC_CTYPE)
    try:
        locale.setlocale(locale.LC_CTYPE, "")
    except locale.Error:
        wanted = next(
            (value for name in ("LC_ALL", "LC_CTYPE", "LANG") if (value := os.environ.get(name))),
            "",
        )
        return f"the locale {wanted} is not installed"
    finally:
        locale.setlocale(locale.LC_CTYPE, before)
    return ""


def _there(folder: Path) -> Path:
    """*folder*, or its nearest parent that is there."""
    return next(path for path in (folder, *folder.parents) if path.is_dir())


def _free(place: Path) -> int | Unknown:
    try:
        return shutil.disk_usage(place).free
    except OSError as error:
        return Unknown(str(error.strerror))
