"""How figures and hostile text are written, for every front end."""
