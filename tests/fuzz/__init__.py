"""Coverage-guided fuzzing of every reader of untrusted bytes, and what it has found so far."""
