"""Scenarios: what a simulation plays, as a file that people write.

Belongs here: the file's model (`model`) and its schema (`schema`), how it is read (`reader`) with a line for
every mistake (`mistakes`) in a field (`fields`), what makes no sense although each field is right (`lint`),
all it refers to (`material`), its pods (`pods`, `pod_trace`). Does not belong here: playing one, which is for
`simulate`, nor what other formats become, which is for `imports`.
"""
