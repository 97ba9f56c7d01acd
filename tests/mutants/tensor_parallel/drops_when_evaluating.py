"""Calls the functional dropout, which drops whether or not the module trains.

law: tensor_parallel.randomness.dropout_is_shared_where_the_stream_is_whole
says: evaluat
"""
# region solution rank_dropout
    with self.random.fork():
        return F.dropout(x, self.p)
# endregion
