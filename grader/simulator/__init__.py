"""One training step on a cluster, simulated from records of numbers: how long it takes, what it needs, which plan is best.

    estimate_step(model, cluster, plan)      # StepEstimate: compute, exposed communication, bubble, memory
    memory_bytes(model, plan)                # of the fullest rank
    fits(model, cluster, plan)               # memory_bytes within the GPU's
    why_not(model, cluster, plan)            # sentences: what the plan can't be, memory aside; () if it can
    search(model, cluster)                   # the fastest of all plans that fit

The records are also given to students, as lm/planning.py, word for word.
"""

from grader.simulator.clusters import GPUS, cluster, dgx_a100, h100, jean_zay, slow_network, two_t4
from grader.simulator.estimate import estimate_step
from grader.simulator.memory import memory_bytes
from grader.simulator.records import Cluster, Model, Plan, Recompute, ScheduleName, StepEstimate
from grader.simulator.search import Found, plans, search
from grader.simulator.validity import fits, why_not

__all__ = [
    "GPUS",
    "Cluster",
    "Found",
    "Model",
    "Plan",
    "Recompute",
    "ScheduleName",
    "StepEstimate",
    "cluster",
    "dgx_a100",
    "estimate_step",
    "fits",
    "h100",
    "jean_zay",
    "memory_bytes",
    "plans",
    "search",
    "slow_network",
    "two_t4",
    "why_not",
]
