"""Commands by who gives them; those that grade, or prove the course, are in `cli`.

feedback     a student at work: watch, laws, hint, trace, site
racing       race, leaderboard
batch        a class is graded
instructors  a graded class is read: export, explain, insight, regrade, similar
asked        what several of them ask in the same words
"""
