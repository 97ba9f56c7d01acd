"""Scales by 1 - p when evaluating, as if training had not made up for what it drops.

law: tensor_parallel.randomness.dropout_is_shared_where_the_stream_is_whole
says: evaluating
"""
# region solution rank_dropout
    if not self.training:
        return x * (1 - self.p)
    with self.random.fork():
        return super().forward(x)
# endregion
