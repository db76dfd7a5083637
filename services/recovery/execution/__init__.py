"""Making a plan happen: guarded steps, a confirmed result for each partition."""
