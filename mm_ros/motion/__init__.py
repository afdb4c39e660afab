"""From motion capture files to the database that is searched and played."""
