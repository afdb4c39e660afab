"""Sources of matched poses: database search, learned networks, and a state machine."""
