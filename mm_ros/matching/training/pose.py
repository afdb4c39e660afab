"""Train the compressor and the decompressor (Holden 2020, algorithm 4).

The compressor encodes a pose in latent numbers. The decompressor computes the pose from features and latent numbers.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from mm_ros.body.skeleton import Skeleton
from mm_ros.matching.engines import pose_code as pc
from mm_ros.matching.training.data import Drawing, MotionData
from mm_ros.matching.training.networks import Body, Layers, Sizes, angles

RIDGE = 1e-3  # Weight of the regularization in the least-squares fits that initialize the networks.
# Weights in the training loss for errors of joint positions [m], joint velocities [m/s], columns of rotation matrices,
# rates of these columns [1/s], root velocity [m/s, rad/s] and contacts.
POSITION, VELOCITY, ROTATION, ROTATION_SPEED, ROOT, CONTACT = 40.0, 2.0, 10.0, 0.3, 8.0, 0.3
LATENT_SIZE, LATENT_SPEED = 0.01, 0.01  # Weights in the training loss that keep the latent numbers small and slow.


class PoseNetworks(nn.Module):
    """Compressor and decompressor. The latent numbers that the compressor computes are called latents."""

    def __init__(self, features: int, skeleton: Skeleton, sizes: Sizes) -> None:
        super().__init__()
        inputs = 2 * pc.WIDTH + features
        self.compressor = Layers(inputs, sizes.latent, sizes.width, 2)
        self.decompressor = Layers(features + sizes.latent, pc.WIDTH, sizes.width, sizes.decompressor_layers)
        self.body = Body(skeleton)
        for name, width in (("code", pc.WIDTH), ("rate", pc.WIDTH)):
            self.register_buffer(f"{name}_mean", torch.zeros(width))
            self.register_buffer(f"{name}_scale", torch.ones(width))

    def latents(self, codes: Tensor, rates: Tensor, features: Tensor) -> Tensor:
        code = (codes - self.code_mean) / self.code_scale
        rate = (rates - self.rate_mean) / self.rate_scale
        out: Tensor = self.compressor(torch.cat([code, rate, features], -1))
        return out

    @torch.no_grad()
    def begin(self, data: MotionData, skeleton: Skeleton) -> None:
        """Initialize the networks with a linear solution, whose latents are the principal components of that part of
        the pose vectors that a linear map of the features does not predict."""
        for name, values in (("code", data.codes), ("rate", data.rates)):
            getattr(self, f"{name}_mean").copy_(torch.as_tensor(values.mean(0)))
            getattr(self, f"{name}_scale").copy_(torch.as_tensor(np.maximum(values.std(0), 0.01)))
        mean, scale, weight = self.code_mean.numpy(), self.code_scale.numpy(), column_weights(skeleton)
        x = data.features.astype(np.float64)
        y = (data.codes - mean).astype(np.float64) * weight
        by_features = least_squares(x, y)
        left = y - x @ by_features
        count = self.compressor.straight.out_features
        variances, axes = np.linalg.eigh(left.T @ left / len(left))
        axes = axes[:, ::-1][:, :count]
        unit = float(np.sqrt(variances[::-1][:count].mean()))
        none = np.zeros((pc.WIDTH, count))
        to_latent = np.concatenate([(scale * weight)[:, None] * axes, none, -by_features @ axes]) / unit
        self.compressor.begin_with(to_latent, np.zeros(count))
        self.decompressor.begin_with(np.concatenate([by_features, unit * axes.T]) / weight, mean)


def column_weights(skeleton: Skeleton) -> Any:
    """Return approximately how far [m] the joints move if a number of a pose vector changes by 1."""
    rest = skeleton.rest_positions().astype(np.float64)
    out = np.full(pc.WIDTH, 0.1)
    count = len(skeleton)
    for j in range(1, count):
        below = [k for k in range(count) if j in skeleton.ancestors(k)]
        arm = np.sqrt((((rest[below] - rest[j]) ** 2).sum(-1)).sum() / count) if below else 0.0
        out[6 * (j - 1) : 6 * j] = arm + 0.03
    out[pc.HIPS_POSITION] = 1.0
    return out


def least_squares(x: Any, y: Any) -> Any:
    return np.linalg.solve(x.T @ x + RIDGE * len(x) * np.eye(x.shape[1]), x.T @ y)


class PoseTask:
    """Training loss of compressor and decompressor, computed from pairs of consecutive frames."""

    def __init__(self, data: MotionData, networks: PoseNetworks, batch: int, seed: int) -> None:
        self.data, self.networks, self.batch, self.seed = data, networks, batch, seed
        self.drawing = Drawing(data.starts_of_windows(2), data.chance)

    def loss(self, step: int) -> Tensor:
        rng = np.random.default_rng([self.seed, 1, step])
        rows = self.drawing.draw(self.batch // 2, rng)
        rows = np.concatenate([rows, rows + 1])
        y, rates, x = (torch.from_numpy(a[rows]) for a in (self.data.codes, self.data.rates, self.data.features))
        net = self.networks
        z = net.latents(y, rates, x)
        out = net.decompressor(torch.cat([x, z], -1))
        return self._distance(y, out) + LATENT_SIZE * z.square().mean() + LATENT_SPEED * _difference(z).abs().mean()

    def _distance(self, y: Tensor, out: Tensor) -> Tensor:
        body, rate = self.networks.body, self.data.rate
        p, g, _ = body(y)
        p_out, g_out, _ = body(out)
        rotations = (y - out)[:, pc.ROTATIONS]
        error = p_out - p
        moving = (_difference(p_out) - _difference(p)) * rate
        contact = nn.functional.binary_cross_entropy_with_logits(out[:, pc.CONTACTS], (y[:, pc.CONTACTS] > 0).float())
        return (
            POSITION * (error.square().sum(-1) + 1e-8).sqrt().mean()
            + VELOCITY * moving.abs().mean()
            + ROTATION * rotations.abs().mean()
            + ROTATION_SPEED * (_difference(rotations) * rate).abs().mean()
            + ROTATION * (g_out - g).abs().mean()
            + POSITION * (y - out)[:, pc.HIPS_POSITION].abs().mean()
            + ROOT * (y - out)[:, pc.ROOT_VELOCITY].abs().mean()
            + CONTACT * contact
        )


def _difference(pairs: Tensor) -> Tensor:
    half = len(pairs) // 2
    return pairs[half:] - pairs[:half]


@torch.no_grad()
def all_latents(data: MotionData, networks: PoseNetworks) -> Any:
    """Compute the latents (numbers from the compressor) of all frames (N, L) as float32."""
    parts = []
    for i in range(0, len(data.codes), 4096):
        s = slice(i, i + 4096)
        given = (torch.from_numpy(a[s]) for a in (data.codes, data.rates, data.features))
        parts.append(networks.latents(*given).numpy())
    return np.concatenate(parts)


@torch.no_grad()
def measured(data: MotionData, body: Body, rows: Any, out: Any) -> dict[str, float]:
    """Return the errors of the pose vectors `out`, compared with the true pose vectors of the frames `rows`. The names
    of the resulting errors contain their units."""
    joints, turns, locals_ = [], [], []
    for i in range(0, len(rows), 4096):
        p, g, own = body(torch.from_numpy(data.codes[rows[i : i + 4096]]))
        p_out, g_out, own_out = body(torch.from_numpy(out[i : i + 4096]))
        joints.append((p - p_out).norm(dim=-1).numpy())
        turns.append(angles(g, g_out).numpy())
        locals_.append(angles(own, own_out).numpy())
    cm = 100 * np.concatenate(joints)
    truth = data.codes[rows]
    return {
        "joints_cm_mean": float(cm.mean()),
        "joints_cm_p95": float(np.percentile(cm, 95)),
        "rotations_deg_mean": float(np.concatenate(turns).mean()),
        "rotations_deg_p95": float(np.percentile(np.concatenate(turns), 95)),
        "local_rotations_deg_mean": float(np.concatenate(locals_).mean()),
        "root_speed_error_cm_s": float(
            100 * np.abs((out - truth)[:, pc.ROOT_VELOCITY][:, :2]).mean()
        ),
        "root_turn_error_deg_s": float(np.rad2deg(np.abs((out - truth)[:, pc.ROOT_VELOCITY][:, 2]).mean())),
        "contacts_right": float(((out[:, pc.CONTACTS] > 0) == (truth[:, pc.CONTACTS] > 0)).mean()),
    }
