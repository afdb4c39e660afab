"""Import BVH files of any software as clips on the canonical skeleton, and report the assumptions about the files."""

from mm_ros.motion.importing.load import FileNotes, Import, find_files, import_files, load_clips, print_doubts
from mm_ros.motion.importing.options import ImportOptions, Overrides, read_options

__all__ = [
    "FileNotes",
    "Import",
    "ImportOptions",
    "Overrides",
    "find_files",
    "import_files",
    "load_clips",
    "print_doubts",
    "read_options",
]
