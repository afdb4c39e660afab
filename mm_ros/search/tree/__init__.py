"""The search engine `tree`, an exact index that tests 16 bounding boxes at a time."""
