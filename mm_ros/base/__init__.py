"""Code that all other packages use: errors, settings, the cache folder, files and processes."""
