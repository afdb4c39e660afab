"""The version; it is alone in this file, so that setup.py can read it without an import."""

__version__ = "0.1.0"
