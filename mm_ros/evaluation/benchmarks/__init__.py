"""Speed and quality beside named peers."""
