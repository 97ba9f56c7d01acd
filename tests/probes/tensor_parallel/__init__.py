"""What runs beside a submission to `tensor_parallel`: it drives functions, layers and models and reports what they did. No opinions.

A rank imports this package as `probes`, so its files name each other relatively.
"""

from .conjugates import functions, nested
from .layers import embedding, linear
from .losses import cross_entropy, large_logits
from .models import block, clip, large_model, model, plain
from .randomness import dropped, streams
from .refusing import refusals, refused_model

__all__ = [
    "block",
    "clip",
    "cross_entropy",
    "dropped",
    "embedding",
    "functions",
    "large_logits",
    "large_model",
    "linear",
    "model",
    "nested",
    "plain",
    "refusals",
    "refused_model",
    "streams",
]
