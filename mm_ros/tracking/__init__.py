"""This package converts the poses of devices into one filtered stream of trackers."""
