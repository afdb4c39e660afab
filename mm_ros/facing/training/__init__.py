"""This package trains the facing network from motion capture, and measures the errors of its predictions."""
