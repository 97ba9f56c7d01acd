"""Races: what a submission takes beside what a peer takes, on one device, in turns, by the judge's clock.

    seats      one process of a race as the judge holds it: what it says, when it may run
    crew       the processes that race as one, a rank each: most races have one
    conduct    the turns: who, how many calls, in what order; -> windows
    windows    what a window showed, and how windows become a stored outcome and come back
    estimate   windows -> seconds per call of each, their ratio, and how far it can be believed
    verdict    estimate -> marks, or why there are none
    bench      windows played through pytest-benchmark

Nothing here starts a process or reads a file of the course: who composes it is `grader.race_stage`.
"""
