"""Says what is exposed as the whole of the two machines' time less the arithmetic: without traffic an ulp may be left of it."""
    # region solution exposed_s
    first_and_last_s = compute_s + traffic_s
    return first_and_last_s + (num_layers - 1) * max(compute_s, traffic_s) - num_layers * compute_s
    # endregion
