"""Motion capture files → the motion database for search and playback."""
