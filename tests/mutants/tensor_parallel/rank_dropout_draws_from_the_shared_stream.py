"""Forgets the fork: with cut tokens, every rank drops the same places of other tokens.

law: tensor_parallel.randomness.dropout_is_shared_where_the_stream_is_whole
says: drop
"""
# region solution rank_dropout
    return super().forward(x)
# endregion
