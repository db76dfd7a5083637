"""A way to the brokers for clients that only know advertised names: a relay on loopback."""
