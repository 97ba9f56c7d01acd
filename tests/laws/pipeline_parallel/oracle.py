"""One process's loss and gradients for the probe's pipelines, in float64 and by hand."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True)
class Answer:
    """Of the mean over the micro-batches: gradients by stage, and the loss."""

    weight: list[Array]
    bias: list[Array]
    loss: float


def one_process(weights: list[Array], biases: list[Array], x: Array, target: Array) -> Answer:
    """The probe's layers, one after the other: column 0 passes, the others are tanh(x W^T + b). The loss is the mean square."""
    weight_gradients, bias_gradients = [np.zeros_like(w) for w in weights], [np.zeros_like(b) for b in biases]
    num_micro_batches, loss = len(x), 0.0
    for inputs, wanted in zip(x, target, strict=True):
        activations = [inputs]
        for weight, bias in zip(weights, biases, strict=True):
            below = activations[-1]
            activations.append(np.concatenate([below[:, :1], np.tanh(below[:, 1:] @ weight.T + bias)], axis=1))
        error = activations[-1] - wanted
        loss += float(np.mean(error**2)) / num_micro_batches
        gradient = 2 * error / error.size / num_micro_batches
        for stage in reversed(range(len(weights))):
            inner = gradient[:, 1:] * (1 - activations[stage + 1][:, 1:] ** 2)
            weight_gradients[stage] += inner.T @ activations[stage][:, 1:]
            bias_gradients[stage] += inner.sum(0)
            gradient = np.concatenate([gradient[:, :1], inner @ weights[stage]], axis=1)
    return Answer(weight_gradients, bias_gradients, loss)


def tied_model(table: Array, tokens: Array, target: Array, num_tanh: int) -> Array:
    """The table's gradient where it is both embedding and head, with `num_tanh` tanh between, of the mean over the micro-batches."""
    gradient = np.zeros_like(table)
    for numbers, wanted in zip(tokens, target, strict=True):
        activations = [table[numbers]]
        for _ in range(num_tanh):
            activations.append(np.tanh(activations[-1]))
        error = activations[-1] @ table.T - wanted
        upstream = 2 * error / error.size / len(tokens)
        gradient += upstream.T @ activations[-1]
        flow = upstream @ table
        for after in reversed(activations[1:]):
            flow = flow * (1 - after**2)
        np.add.at(gradient, numbers, flow)
    return gradient
