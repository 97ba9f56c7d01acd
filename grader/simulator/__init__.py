"""One training step on a cluster, simulated from records of numbers: how long it takes, what it needs, which plan is best.

    estimate_step(model, cluster, plan)      # StepEstimate: compute, exposed communication, bubble, memory
    memory_bytes(model, plan)                # of the fullest rank
    fits(model, cluster, plan)               # memory_bytes within the GPU's
    why_not(model, cluster, plan)            # sentences: what the plan can't be, memory aside; () if it can
    search(model, cluster)                   # the fastest of all plans that fit

The records are also given to students, as lm/planning.py, word for word.
"""

from grader.simulator.records import AXES, Cluster, Model, Plan, Recompute, ScheduleName, StepEstimate

__all__ = [
    "AXES",
    "Cluster",
    "Model",
    "Plan",
    "Recompute",
    "ScheduleName",
    "StepEstimate",
]
