"""The front door: commands, exit codes, output."""

__version__ = "0.1.0"
