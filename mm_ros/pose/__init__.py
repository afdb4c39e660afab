"""Correct the matched pose: blend it after jumps, and put its head, hands and feet in place."""
