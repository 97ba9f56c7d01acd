"""Figures as they are printed, each table with its source."""

from __future__ import annotations

# Narayanan et al. 2021 ("Efficient Large-Scale Language Model Training on GPU Clusters Using Megatron-LM"), table 1:
# billions of parameters, heads, hidden size, layers. Sequence 2048, vocabulary 51200.
MEGATRON_TABLE_1 = (
    (1.7, 24, 2304, 24),
    (3.6, 32, 3072, 30),
    (7.5, 32, 4096, 36),
    (18.4, 48, 6144, 40),
    (39.1, 64, 8192, 48),
    (76.1, 80, 10240, 60),
    (145.6, 96, 12288, 80),
    (310.1, 128, 16384, 96),
    (529.6, 128, 20480, 105),
    (1008.0, 160, 25600, 128),
)
MEGATRON_SEQUENCE, MEGATRON_VOCABULARY = 2048, 51200

# Rajbhandari et al. 2020 (ZeRO), table 1: GB per device under stages 1, 2 and 3. (parameters, dp): as printed.
ZERO_TABLE_1: dict[tuple[float, int], tuple[str, str, str]] = {
    (7.5e9, 1): ("120", "120", "120"),
    (7.5e9, 4): ("52.5", "41.3", "30"),
    (7.5e9, 16): ("35.6", "21.6", "7.5"),
    (7.5e9, 64): ("31.4", "16.6", "1.88"),
    (7.5e9, 256): ("30.4", "15.4", "0.47"),
    (7.5e9, 1024): ("30.1", "15.1", "0.12"),
    (128e9, 1): ("2048", "2048", "2048"),
    (128e9, 4): ("896", "704", "512"),
    (128e9, 16): ("608", "368", "128"),
    (128e9, 64): ("536", "284", "32"),
    (128e9, 256): ("518", "263", "8"),
    (128e9, 1024): ("513", "257", "2"),
    (1e12, 1): ("16000", "16000", "16000"),
    (1e12, 4): ("7000", "5500", "4000"),
    (1e12, 16): ("4750", "2875", "1000"),
    (1e12, 64): ("4187", "2218", "250"),
    (1e12, 256): ("4046", "2054", "62.5"),
    (1e12, 1024): ("4011", "2013", "15.6"),
}

# Korthikanti et al. 2022 ("Reducing Activation Recomputation in Large Transformer Models"), table 3:
# heads, hidden size, layers, tp, pp, model chunks per stage, micro-batch. Sequence 2048, vocabulary 51200.
KORTHIKANTI_TABLE_3 = {
    "22B": (64, 6144, 48, 8, 1, 1, 4),
    "175B": (96, 12288, 96, 8, 8, 3, 1),
    "530B": (128, 20480, 105, 8, 35, 3, 1),
    "1T": (160, 25600, 128, 8, 64, 1, 1),
}

# The same paper, section 5: per cent of a layer's activations that selective recomputation saves where all else is cut by tp.
KORTHIKANTI_SAVED_PER_CENT = {"175B": 70, "530B": 65}

# The same paper, figure 7, as read by calculon-ai/calculon (calculon/llm/validation.py): a layer's activations in per cent of those under
# tensor parallelism alone. Read off a drawing: good to about 0.15 points.
KORTHIKANTI_FIGURE_7 = {
    "22B": {"sequence": 66.84, "selective": 49.42, "both": 16.18, "full": 7.64},
    "175B": {"sequence": 62.04, "selective": 56.53, "both": 18.49, "full": 8.71},
    "530B": {"sequence": 58.31, "selective": 62.04, "both": 20.27, "full": 9.42},
}
DRAWING_POINTS = 0.15

# The same paper, figure 1, from the same file: GiB of a first-stage rank's layers under tensor parallelism, and with sequence parallelism
# and selective recomputation.
KORTHIKANTI_FIGURE_1 = {
    "22B": (59.25, 9.5625),
    "175B": (66.84375, 12.3515625),
    "530B": (114.0234375, 23.076171875),
    "1T": (131.25, 26.5625),
}


def last_digit(figure: str) -> float:
    """One unit of the last printed digit: tables cut as well as round."""
    return 10.0 ** -len(figure.partition(".")[2])
