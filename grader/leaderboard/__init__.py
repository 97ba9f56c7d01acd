"""The leaderboard: what races have told of many submissions, as a page that needs no network and as CSV."""

from grader.leaderboard.entries import Entry, entries_of, read_names
from grader.leaderboard.page import write

__all__ = ["Entry", "entries_of", "read_names", "write"]
