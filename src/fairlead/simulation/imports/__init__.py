"""Scenarios from what others recorded: traces of pods, spot markets, dumps of clusters, recordings.

Belongs here: one module per format, each a function from what the files hold to a `Draft`, a scenario to be
written and the files beside it. What a format has and a scenario cannot have is said in the draft's notes,
never left out silently. Does not belong here: playing any of it.
"""
