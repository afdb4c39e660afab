"""Train the stepper, which predicts the next state, and the projector, which finds the state nearest to a query.

Holden (2020) describes both networks in algorithms 5 and 6.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from mm_ros.body.types import F32
from mm_ros.matching.training.data import Drawing, MotionData, QuerySampler, Questions
from mm_ros.matching.training.networks import Layers, Sizes
from mm_ros.matching.training.pose import least_squares

WINDOW = 20
# Weights of the stepper network's errors in features, latent numbers and their rates in the training loss.
FEATURE, LATENT, FEATURE_SPEED, LATENT_SPEED = 2.0, 4.0, 0.4, 0.8
# Noise of `START_NOISE` times the standard deviation of the states teaches the stepper network to return to the motion.
START_NOISE = 0.06


class Stepper(nn.Module):
    def __init__(self, width: int, sizes: Sizes) -> None:
        super().__init__()
        self.layers = Layers(width, width, sizes.width, sizes.stepper_layers)
        self.register_buffer("scale", torch.ones(width))

    def forward(self, state: Tensor) -> Tensor:
        out: Tensor = state + self.scale * self.layers(state)
        return out

    @torch.no_grad()
    def begin(self, states: F32, firsts: Any) -> None:
        change = (states[firsts + 1] - states[firsts]).astype(np.float64)
        self.scale.copy_(torch.as_tensor(np.maximum(change.std(0), 1e-4)))
        before = states[firsts].astype(np.float64)
        weight = least_squares(before, change / self.scale.numpy())
        self.layers.begin_with(weight, np.zeros(states.shape[1]))


class StepperTask:
    def __init__(self, data: MotionData, states: F32, stepper: Stepper, batch: int, seed: int) -> None:
        self.data, self.stepper, self.states, self.batch, self.seed = data, stepper, states, batch, seed
        self.features = data.features.shape[1]
        self.spread = torch.from_numpy(states.std(0))
        longest = max(int((data.database.range_stops - data.database.range_starts).max()), 2)
        self.window = min(WINDOW, longest)
        self.drawing = Drawing(data.starts_of_windows(self.window), data.chance)

    def loss(self, step: int) -> Tensor:
        rng = np.random.default_rng([self.seed, 2, step])
        rows = self.drawing.draw(self.batch, rng)
        truth = torch.from_numpy(self.states[rows[None] + np.arange(self.window)[:, None]])
        noise = torch.from_numpy(rng.standard_normal(truth[0].shape).astype(np.float32))
        noise *= torch.from_numpy((rng.random((len(rows), 1)) < 0.7).astype(np.float32)) * START_NOISE * self.spread
        now = truth[0] + noise
        total = torch.zeros(())
        for t in range(1, self.window):
            after = self.stepper(now)
            total = total + self._error(after - truth[t], (after - now) - (truth[t] - truth[t - 1]))
            now = after
        return total / (self.window - 1)

    def _error(self, error: Tensor, change: Tensor) -> Tensor:
        d, rate = self.features, self.data.rate / 10
        return (
            FEATURE * error[:, :d].abs().mean()
            + LATENT * error[:, d:].abs().mean()
            + FEATURE_SPEED * rate * change[:, :d].abs().mean()
            + LATENT_SPEED * rate * change[:, d:].abs().mean()
        )


class Projector(nn.Module):
    def __init__(self, features: int, conditions: int, sizes: Sizes) -> None:
        super().__init__()
        self.layers = Layers(features + conditions, features + sizes.latent, sizes.width, sizes.projector_layers)

    def forward(self, inputs: Tensor) -> Tensor:
        out: Tensor = self.layers(inputs)
        return out

    @torch.no_grad()
    def begin(self, questions: Questions, states: F32) -> None:
        inputs = questions.inputs.astype(np.float64)
        self.layers.begin_with(least_squares(inputs, states[questions.answers]), np.zeros(states.shape[1]))


class ProjectorTask:
    def __init__(
        self, asking: QuerySampler, states: F32, projector: Projector, batch: int, seed: int, pool: int, visits: int
    ) -> None:
        self.asking, self.states, self.projector = asking, states, projector
        self.batch, self.seed, self.pool_size = batch, seed, pool
        self.features = asking.data.features.shape[1]
        weights = np.sqrt(asking.weights / asking.weights.mean())
        self.weights = torch.from_numpy(weights.astype(np.float32))
        self.steps_a_pool = max(1, visits * pool // batch)
        self._pool: tuple[int, Questions] | None = None

    def questions(self, index: int) -> Questions:
        if self._pool is None or self._pool[0] != index:
            self._pool = index, self.asking.pool(index, self.pool_size)
        return self._pool[1]

    def loss(self, step: int) -> Tensor:
        questions = self.questions(step // self.steps_a_pool)
        rng = np.random.default_rng([self.seed, 3, step])
        asked = rng.integers(len(questions.answers), size=self.batch)
        inputs = torch.from_numpy(questions.inputs[asked])
        wanted = torch.from_numpy(self.states[questions.answers[asked]])
        out, d = self.projector(inputs), self.features
        error = out - wanted
        query = inputs[:, :d]
        far = ((out[:, :d] - query) * self.weights).square().sum(-1).add(1e-6).sqrt()
        should = ((wanted[:, :d] - query) * self.weights).square().sum(-1).add(1e-6).sqrt()
        return (
            2.0 * (error[:, :d] * self.weights).abs().mean()
            + 3.0 * error[:, d:].abs().mean()
            + 0.2 * (far - should).abs().mean()
        )
