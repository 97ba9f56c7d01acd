"""Counts in fractions, where nothing is rounded, and turns to a float on the way out."""
    # region solution tokens_per_s
    from fractions import Fraction

    ordered = sorted(Fraction(step_s) for step_s in run.step_s)
    low, high = ordered[(len(ordered) - 1) // 2], ordered[len(ordered) // 2]
    sequences = run.world_size * run.num_micro_batches * run.micro_batch
    return float(sequences * run.sequence / ((low + high) / 2))
    # endregion
    # region solution mfu
    from fractions import Fraction

    needed = Fraction(flops_per_token(run.config, run.sequence, causal=causal, recompute="none"))
    seconds = needed / Fraction(peak_flops_per_s(run, hardware))
    return float(Fraction(tokens_per_s(run)) * seconds / run.world_size)
    # endregion
    # region solution hfu
    from fractions import Fraction

    needed = flops_per_token(run.config, run.sequence, causal=causal, recompute="none")
    done = flops_per_token(run.config, run.sequence, causal=causal, recompute=run.recompute)
    return float(Fraction(mfu(run, hardware, causal=causal)) * Fraction(done) / Fraction(needed))
    # endregion
    # region solution ring_all_reduce_bytes
    from fractions import Fraction

    return float(Fraction(message_bytes) * 2 * (1 - Fraction(1, world_size)))
    # endregion
