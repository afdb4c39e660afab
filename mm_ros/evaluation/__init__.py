"""Run the avatar on clips and sessions, and compare its motion with the user's true motion and with baselines."""
