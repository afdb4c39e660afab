"""Run the avatar on clips and sessions and compare it with the truth and with baselines."""
