"""Access rules for every page that mm_ros serves."""
