"""Changes topic settings temporarily: to prevent elections, or to make last leaders forgotten."""
