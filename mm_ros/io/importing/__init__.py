"""Motion files of any maker → canonical clips, with a report of what was assumed."""

from mm_ros.io.importing.load import Import, import_files, load_clips
from mm_ros.io.importing.options import ImportOptions, Overrides, read_options

__all__ = ["Import", "ImportOptions", "Overrides", "import_files", "load_clips", "read_options"]
