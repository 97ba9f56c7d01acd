"""The same plan in three libraries' own words: DeepSpeed's JSON, Megatron-LM's arguments, and FSDP2 with torchtitan's sections.

Names are those of DeepSpeed 0.19.6, Megatron-LM core_v0.12.0, torch 2.13.0 and torchtitan v0.2.2. What a library cannot do is a ValueError.
"""

from __future__ import annotations

from typing import Any, Literal

from lm.planning import Plan

Precision = Literal["bf16", "fp16"]


# --- task settings ---------------------------------------------------------------------------------------------------
def deepspeed_config(plan: Plan, *, precision: Precision = "bf16") -> dict[str, Any]:
    """Return the configuration file of DeepSpeed as a dict that json can write.

    tp, pp and ep are no keys: there they are objects of the program. ValueError for an interleaved plan: DeepSpeed has none.
    """
    raise NotImplementedError("parallel_plan, task settings: see section 8 of the handout")


def megatron_arguments(plan: Plan, *, precision: Precision = "bf16") -> list[str]:
    """Return the command line of Megatron-LM that concerns the plan: flags and their values, one string each. dp follows from the world."""
    raise NotImplementedError("parallel_plan, task settings: see section 8 of the handout")


def fsdp2_settings(plan: Plan, *, precision: Precision = "bf16") -> dict[str, Any]:
    """Return {"fully_shard": its keywords, or None where nothing is sharded; "torchtitan": {section: {key: value}}}.

    ValueError for fp16, which needs a loss scaler that torchtitan has not.
    """
    raise NotImplementedError("parallel_plan, task settings: see section 8 of the handout")
