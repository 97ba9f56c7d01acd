"""What runs beside a submission to `sharded_data_parallel`: it drives the classes and reports facts. No opinions, no expected values.

A rank imports this package as `probes`, so its files name each other relatively.
"""

from .checkpoints import many_savers, moved, taken_back, trained_state
from .deaths import killed
from .memory import alone
from .timing import ordered
from .training import clip, precision, spans, train

__all__ = ["alone", "clip", "killed", "many_savers", "moved", "ordered", "precision", "spans", "taken_back", "train", "trained_state"]
