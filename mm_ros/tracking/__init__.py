"""From devices to one clean stream of trackers."""
