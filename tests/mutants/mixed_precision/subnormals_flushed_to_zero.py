"""Whatever is smaller than the smallest normal number becomes zero.

law: mixed_precision.formats.keeps_subnormals_and_zeros
says: round_to
"""
# region solution round_to
    wide = x.detach().double()
    exponent = (torch.frexp(wide).exponent - 1).clamp(min=2 - 2 ** (exponent_bits - 1))
    spacing = torch.pow(torch.tensor(2.0, dtype=torch.float64), (exponent - mantissa_bits).double())
    rounded = (wide / spacing).round() * spacing
    rounded = torch.where(rounded.abs() < 2.0 ** (2 - 2 ** (exponent_bits - 1)), torch.zeros_like(wide).copysign(wide), rounded)
    largest = (2 - 2.0**-mantissa_bits) * 2.0 ** (2 ** (exponent_bits - 1) - 1)
    rounded = torch.where(rounded.abs() > largest, torch.full_like(wide, math.inf).copysign(wide), rounded)
    return torch.where(wide.isfinite(), rounded, wide).to(x.dtype)
# endregion
