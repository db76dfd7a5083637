"""What `make` runs: plain commands over the standard library, before there is an environment."""
