"""What a submission may not use, found in its syntax tree. A teaching aid with rule, line and reason; never the wall."""

from grader.policy.check import hits, hits_in, without_rules
from grader.policy.everywhere import EVERYWHERE

__all__ = ["EVERYWHERE", "hits", "hits_in", "without_rules"]
