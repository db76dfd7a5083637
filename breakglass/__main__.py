"""Lets `python -m breakglass` run the program."""

from breakglass.console.cli import main

raise SystemExit(main())
