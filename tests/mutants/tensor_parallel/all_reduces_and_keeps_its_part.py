"""Makes a reduce-scatter of an all-reduce that throws away all but a part: right, for twice the bytes.

law: tensor_parallel.functions.moves_no_byte_too_many
says: bytes
"""
# region solution summed_part
    own_part(x, dim, group)  # refuses before anything is sent
    return own_part(summed(x, group), dim, group).contiguous()
# endregion
