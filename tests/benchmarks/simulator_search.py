"""How long a search takes on one core, and how many plans it goes through.

    python -m tests.benchmarks.simulator_search
"""

from __future__ import annotations

import time

from grader.simulator import Cluster, Model, dgx_a100, h100, search, slow_network

LLAMA_405B = Model(126, 16384, 128, 8, 53248, 128256, 8192, 2048, gated=True, tied=False, bias=False, rotary=True)
GPT_175B = Model(96, 12288, 96, 96, 4 * 12288, 51200, 2048, 1536, attention="dense", dropout=True)
GPT_1T = Model(128, 25600, 160, 160, 4 * 25600, 51200, 2048, 3072, attention="dense", dropout=True)
GPT_355M = Model(24, 1024, 16, 16, 4096, 50304, 1024, 64)
PAIRS: tuple[tuple[str, Model, Cluster], ...] = (
    ("Llama 3 405B on 16384 H100", LLAMA_405B, h100(2048)),
    ("GPT-3 175B on 1024 A100", GPT_175B, dgx_a100(128)),
    ("GPT 1T on 3072 A100", GPT_1T, dgx_a100(384)),
    ("GPT-2 355M on 16 A100, slow network", GPT_355M, slow_network(2)),
)


def main() -> None:
    """Print a line for each pair: CPU seconds of this process, plans, those that fit, the best."""
    for name, model, cluster in PAIRS:
        start_s = time.process_time()
        found = search(model, cluster)
        print(f"{name}: {time.process_time() - start_s:.2f} s, {found.num_plans} plans, {found.num_fitting} fit")
        print(f"    {found.plan}")
        print(f"    {found.estimate}")


if __name__ == "__main__":
    main()
