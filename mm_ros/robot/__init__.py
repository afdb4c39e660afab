"""The package `robot` makes a humanoid robot follow the avatar."""
