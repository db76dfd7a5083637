"""The front door: commands, exit codes, output."""
