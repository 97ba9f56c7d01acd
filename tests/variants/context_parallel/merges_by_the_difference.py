"""Takes a sigmoid of the difference of the log-sum-exps."""
# region solution merge_attention
o_a, o_b, lse_a, lse_b = map(wide, (o_a, o_b, lse_a, lse_b))
o_a, o_b = (o.masked_fill((lse == -math.inf)[..., None], 0) for o, lse in ((o_a, lse_a), (o_b, lse_b)))
low, high = torch.minimum(lse_a, lse_b), torch.maximum(lse_a, lse_b)
difference = torch.where(low == -math.inf, -math.inf, low - high)
lse = torch.where(low == -math.inf, high, high + torch.log1p(difference.exp()))
share = torch.where(low == -math.inf, (lse_b > lse_a).to(lse.dtype), torch.sigmoid(lse_b - lse_a))[..., None]
return o_a * (1 - share) + o_b * share, lse
# endregion
