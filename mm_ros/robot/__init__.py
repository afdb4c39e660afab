"""A humanoid robot that follows the avatar."""
