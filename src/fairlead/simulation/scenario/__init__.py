"""Scenarios: what a simulation plays, as a file that people write.

Belongs here: the file's model (`model`), how it is read with a line for every mistake (`reader`), what
makes no sense although each field is right (`lint`), all that it refers to (`material`), its pods (`pods`,
`pod_trace`). Does not belong here: playing one; `simulate` does that.
"""
