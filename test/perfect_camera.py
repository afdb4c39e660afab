"""A simulated camera whose landmarks have no delay, no noise and no losses."""

from mm_ros.tracking.landmark_simulation import LandmarkSimulation

PERFECT = LandmarkSimulation(
    latency_s=0.0, unreported_latency_s=0.0, noise_m=0.0, depth_noise_m=0.0, turn_noise=0.0, lost=0.0, flips=0.0,
    flattened=1.0, size=1.0,
)  # fmt: skip
