"""A training in PyTorch; speaks as worker.c does.  One unit is one step.

    train.py seconds=S batch=N [measure=1]      measure: say what the card takes for a step, us, and don't train

With a small batch the processor is slower than the card.
"""

from __future__ import annotations

import json
import statistics
import sys
import time
from collections.abc import Callable

import torch
from torch import nn

_WIDTH, _DEPTH = 2048, 6
_WARM_UP = 20
_ROUNDS, _STEPS = 9, 4
_CYCLES = 50_000_000  # 25 ms: heavier work would lower the card's clock
_BETWEEN_LOOKS = 10


def _card_us(step: Callable[[], None]) -> float:
    """Of one step, when the card needn't wait for the processor: some are launched behind work that takes longer."""
    took = []
    for _ in range(_ROUNDS):
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        torch.cuda._sleep(_CYCLES)
        begin.record()
        for _ in range(_STEPS):
            step()
        end.record()
        torch.cuda.synchronize()
        took.append(float(begin.elapsed_time(end)) * 1000 / _STEPS)
        time.sleep(0.1)  # the card keeps its clock
    return statistics.median(took)


def main() -> None:
    """See the module."""
    options = dict(word.split("=") for word in sys.argv[1:])
    seconds = float(options["seconds"])
    torch.manual_seed(1)
    layers = [m for _ in range(_DEPTH) for m in (nn.Linear(_WIDTH, _WIDTH), nn.GELU())]
    model = nn.Sequential(*layers).cuda().bfloat16()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    x = torch.randn(int(options["batch"]), _WIDTH, device="cuda", dtype=torch.bfloat16)

    def step() -> None:
        optimizer.zero_grad(set_to_none=True)
        model(x).square().mean().backward()
        optimizer.step()

    for _ in range(_WARM_UP):
        step()
    torch.cuda.synchronize()
    if "measure" in options:
        print(json.dumps({"card_us": _card_us(step)}), flush=True)
        return
    print("ready", flush=True)
    start = int(sys.stdin.readline())
    time.sleep(max(0, start - time.clock_gettime_ns(time.CLOCK_MONOTONIC)) / 1e9)
    # the clock starts for all at once; what was done by each tenth of a second is read between the steps
    times: list[tuple[int, int]] = []
    steps = 0
    while (now := time.clock_gettime_ns(time.CLOCK_MONOTONIC)) - start < seconds * 1e9:
        times.append((now - start, steps))
        for _ in range(_BETWEEN_LOOKS):
            step()
        torch.cuda.synchronize()
        steps += _BETWEEN_LOOKS
    times.append((now - start, steps))
    done, at = [], 0
    for tenth in range(1, round(seconds * 10) + 1):
        while at + 1 < len(times) and times[at + 1][0] < tenth * 1e8:
            at += 1
        (t0, s0), (t1, s1) = times[at], times[min(at + 1, len(times) - 1)]
        done.append(s0 + (s1 - s0) * (tenth * 1e8 - t0) / max(t1 - t0, 1))
    print(json.dumps({"done": done, "bursts": [], "cpu": time.process_time()}), flush=True)


if __name__ == "__main__":
    main()
