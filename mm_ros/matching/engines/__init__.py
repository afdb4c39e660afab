"""Sources of matched poses: database search, learned networks, state machine."""
