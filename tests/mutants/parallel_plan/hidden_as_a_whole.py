"""Compares all traffic with all arithmetic, as if the first layer's could begin before anything was computed.

law: parallel_plan.communication.shards_travel_among_replicas
says: exposed
"""
    # region solution exposed_s
    return max(0.0, num_layers * (traffic_s - compute_s))
    # endregion
