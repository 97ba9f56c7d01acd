"""Rounds a flat view, which a transposed matrix doesn't have.

law: mixed_precision.formats.rounds_to_nearest_even
says: view
"""
# region solution round_to
    exact = x.view(-1).double().view(x.shape)
    smallest_exponent = 2 - 2 ** (exponent_bits - 1)
    largest_exponent = 2 ** (exponent_bits - 1) - 1
    exponent = (torch.frexp(exact).exponent - 1).clamp(min=smallest_exponent)
    spacing = torch.ldexp(torch.ones_like(exact), exponent - mantissa_bits)
    rounded = (exact / spacing).round() * spacing
    largest = (2 - 2.0**-mantissa_bits) * 2.0**largest_exponent
    overflown = torch.where(rounded.abs() > largest, torch.copysign(torch.full_like(exact, math.inf), exact), rounded)
    return torch.where(exact.isfinite(), overflown, exact).to(x.dtype)
# endregion
