"""Talks to brokers: connections, the sender, deadlines, errors, and messages of our own."""
