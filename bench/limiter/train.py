"""Small trainings in PyTorch, timed in windows: what a person would notice of a limiter.

A program: says "ready", then reads "MODEL-MODE" lines from stdin, such as "gpt-eager", trains for a window, and answers
each with "MODEL-MODE NS", the time of one step.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812  as everybody writes it

_WINDOW_SECONDS = 0.6
_STEPS_BETWEEN_LOOKS = 20
_WARM_UP_STEPS = 10


class Mlp(nn.Module):
    """Five small layers: the time goes into launches."""

    def __init__(self) -> None:
        super().__init__()
        width = 512
        self.layers = nn.Sequential(*(m for _ in range(5) for m in (nn.Linear(width, width), nn.GELU())))
        self.register_buffer("x", torch.randn(64, width))
        self.register_buffer("y", torch.randn(64, width))

    def loss(self) -> Tensor:
        return F.mse_loss(self.layers(self.x), self.y)


class Gpt(nn.Module):
    """Four blocks of a character model."""

    def __init__(self) -> None:
        super().__init__()
        self.vocabulary, width, length = 256, 256, 128
        self.embed = nn.Embedding(self.vocabulary, width)
        self.place = nn.Parameter(torch.zeros(length, width))
        layer = nn.TransformerEncoderLayer(width, 4, 4 * width, dropout=0.0, batch_first=True, norm_first=True)
        self.blocks = nn.TransformerEncoder(layer, 4, enable_nested_tensor=False)
        self.head = nn.Linear(width, self.vocabulary)
        self.register_buffer("mask", nn.Transformer.generate_square_subsequent_mask(length))
        self.register_buffer("text", torch.randint(self.vocabulary, (8, length + 1)))

    def loss(self) -> Tensor:
        hidden = self.embed(self.text[:, :-1]) + self.place
        scores = self.head(self.blocks(hidden, mask=self.mask, is_causal=True))
        return F.cross_entropy(scores.flatten(0, 1), self.text[:, 1:].flatten())


MODELS: dict[str, type[nn.Module]] = {"mlp": Mlp, "gpt": Gpt}


def make_step(model: nn.Module, *, capturable: bool) -> Callable[[], None]:
    """One step of training, as eager code."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, capturable=capturable)

    def step() -> None:
        optimizer.zero_grad(set_to_none=True)
        model.loss().backward()
        optimizer.step()

    return step


def capture(step: Callable[[], None]) -> Callable[[], None]:
    """The same step as a CUDA graph."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            step()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()
    replay: Callable[[], None] = graph.replay
    return replay


def ns_per_step(step: Callable[[], None]) -> float:
    """Over one window."""
    torch.cuda.synchronize()
    start, steps = time.perf_counter_ns(), 0
    while time.perf_counter_ns() - start < _WINDOW_SECONDS * 1e9:
        for _ in range(_STEPS_BETWEEN_LOOKS):
            step()
        torch.cuda.synchronize()
        steps += _STEPS_BETWEEN_LOOKS
    return (time.perf_counter_ns() - start) / steps


def main() -> None:
    """See the module."""
    torch.manual_seed(1)
    steps: dict[str, Callable[[], None]] = {}
    torch.zeros(1, device="cuda")
    print("ready", flush=True)
    for line in sys.stdin:
        name = line.strip()
        try:
            if name not in steps:
                model, mode = name.split("-")
                step = make_step(MODELS[model]().cuda(), capturable=mode == "graph")
                steps[name] = capture(step) if mode == "graph" else step
                for _ in range(_WARM_UP_STEPS):
                    steps[name]()
            print(name, ns_per_step(steps[name]), flush=True)
        except (RuntimeError, KeyError, ValueError) as error:
            print("error", str(error).splitlines()[0], flush=True)


if __name__ == "__main__":
    main()
