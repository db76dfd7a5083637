"""How backups stand, looked at again and again: what is there, what runs, how far it is behind."""
