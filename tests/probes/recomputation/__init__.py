"""What runs beside a submission to `recomputation`: it drives the functions and reports what they gave, ran and kept. No opinions.

A rank imports this package as `probes`, so its files name each other relatively.
"""

from .accumulation import accumulated, accumulated_large, trained
from .checkpoints import chain, checkpointed_large, given_twice, many_arguments, several_outputs, token_inputs
from .contexts import autocasted, noisy, without_gradients
from .keeping import counted, kept
from .sequences import impossible_segments, peaks, sequence, sequence_large

__all__ = [
    "accumulated",
    "accumulated_large",
    "autocasted",
    "chain",
    "checkpointed_large",
    "counted",
    "given_twice",
    "impossible_segments",
    "kept",
    "many_arguments",
    "noisy",
    "peaks",
    "sequence",
    "sequence_large",
    "several_outputs",
    "token_inputs",
    "trained",
    "without_gradients",
]
