"""Draws a mask whenever it is called.

law: tensor_parallel.randomness.dropout_is_shared_where_the_stream_is_whole
says: valuat
"""
# region solution rank_dropout
        with self.random.fork():
            return F.dropout(x, self.p, True)
# endregion
