"""Small trainings in PyTorch, timed in windows: what a person would notice of a limiter.

A program: says "ready", then reads "MODEL-MODE" lines from stdin, such as "gpt-eager", trains for a window, and answers
each with "MODEL-MODE NS", the time of one step, waited for as by a loop that looks at its loss.  With a limiter the
answer is "MODEL-MODE THROUGH DIRECT": the window is twice as long and goes through the limiter and past it by turns
(cost/bypass.c), since any two processes differ by more than a limiter costs.  Windows are short, so that what else
happens to the processor meets all that train by turns alike; they keep to the same two cores.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812  as everybody writes it

_WINDOW_SECONDS = 0.03
_TURN_SECONDS = 0.004  # of at least one step
_THROUGH, _DIRECT = False, True
_WARM_UP_STEPS = 10
_CORES = 2  # one for the program, one for autograd's thread


class Model(nn.Module):
    """One that brings its own data."""

    def loss(self) -> Tensor:
        """Of one forward pass."""
        raise NotImplementedError


class Mlp(Model):
    """Five small layers: the time goes into launches."""

    def __init__(self) -> None:
        super().__init__()
        width = 512
        self.layers = nn.Sequential(*(m for _ in range(5) for m in (nn.Linear(width, width), nn.GELU())))
        self.register_buffer("x", torch.randn(64, width))
        self.register_buffer("y", torch.randn(64, width))

    def loss(self) -> Tensor:
        return F.mse_loss(self.layers(self.x), self.y)


class Gpt(Model):
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


MODELS: dict[str, type[Model]] = {"mlp": Mlp, "gpt": Gpt}


def make_step(model: Model, loss: Callable[[], Tensor], *, capturable: bool) -> Callable[[], None]:
    """One step of training, its forward and backward halves by `loss`."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, capturable=capturable)

    def step() -> None:
        optimizer.zero_grad(set_to_none=True)
        loss().backward()
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


def prepare(name: str, mode: str) -> Callable[[], None]:
    """A step of a model, "eager", as a CUDA "graph", or "compiled"."""
    model = MODELS[name]().cuda()
    loss = torch.compile(model.loss) if mode == "compiled" else model.loss
    step = make_step(model, loss, capturable=mode == "graph")
    return capture(step) if mode == "graph" else step


def keep_to_cores() -> None:
    """Keep all threads that there are now on the same cores, which are not halves of one."""
    chosen: list[int] = []
    taken: set[str] = set()
    for core in sorted(os.sched_getaffinity(os.getppid()), reverse=True):
        try:
            whole = Path(f"/sys/devices/system/cpu/cpu{core}/topology/thread_siblings_list").read_text()
        except OSError:
            whole = str(core)
        if whole not in taken and len(chosen) < _CORES:
            chosen.append(core)
            taken.add(whole)
    for thread in os.listdir("/proc/self/task"):
        with contextlib.suppress(ProcessLookupError):
            os.sched_setaffinity(int(thread), chosen)


class Limiter:
    """The one in this process, if there is any, which can be passed by."""

    def __init__(self) -> None:
        self._library = ctypes.CDLL(os.environ["BENCH_BYPASS"])
        self._library.bypass.argtypes = [ctypes.c_bool]
        self._library.bypass.restype = None
        wrappers: int = self._library.bypass_open()
        if wrappers < 0:
            raise RuntimeError("The limiter's code can't be changed, so that nothing can be timed past it.")
        self.routes = (_THROUGH, _DIRECT) if wrappers else (_THROUGH,)

    def take(self, route: bool) -> None:
        """Go through it or past it from now on."""
        if len(self.routes) > 1:
            self._library.bypass(route)


def steps_of_one_turn(step: Callable[[], None]) -> list[int]:
    """How many ns each took."""
    steps, begin = [], time.perf_counter_ns()
    now = begin
    while now - begin < _TURN_SECONDS * 1e9:
        step()
        torch.cuda.synchronize()
        before, now = now, time.perf_counter_ns()
        steps.append(now - before)
    return steps


def ns_per_step(step: Callable[[], None], limiter: Limiter) -> list[float]:
    """The medians over one window by route; its first step finds the caches as another program left them."""
    step()
    torch.cuda.synchronize()
    steps: dict[bool, list[int]] = {route: [] for route in limiter.routes}
    while any(sum(times) < _WINDOW_SECONDS * 1e9 for times in steps.values()):
        # there and back, so that neither is always the first
        for route in (*limiter.routes, *reversed(limiter.routes)):
            limiter.take(route)
            steps[route] += steps_of_one_turn(step)
    limiter.take(_THROUGH)
    return [statistics.median(times) for times in steps.values()]


def main() -> None:
    """See the module."""
    torch.manual_seed(1)
    steps: dict[str, Callable[[], None]] = {}
    torch.zeros(1, device="cuda")
    limiter = Limiter()
    print("ready", flush=True)
    for line in sys.stdin:
        name = line.strip()
        try:
            if name not in steps:
                steps[name] = prepare(*name.split("-"))
                for _ in range(_WARM_UP_STEPS):
                    steps[name]()
                keep_to_cores()
            print(name, *ns_per_step(steps[name], limiter), flush=True)
        except (RuntimeError, KeyError, ValueError) as error:
            print("error", str(error).splitlines()[0], flush=True)


if __name__ == "__main__":
    main()
