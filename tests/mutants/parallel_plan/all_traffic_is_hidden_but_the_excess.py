"""Lets the first layer's traffic begin before there is any.

law: parallel_plan.communication.shards_travel_among_replicas
says: first layer
"""
    # region solution exposed_s
    return max(0.0, num_layers * (traffic_s - compute_s))
    # endregion
