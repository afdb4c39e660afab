"""Web pages that mm_ros serves: access rules of all pages, and the headset page."""
