"""Planning a placement policy for spot nodes: the cheapest that keeps a workload available enough.

Belongs here: the question as a file (`model`, `plan_file`), how pools were there together (`joint_states`)
or would be (`common_shock`), the policies that could be chosen (`candidates`), what each would have come to
(`course`), how sure that is (`bounds`), the choice (`choice`) and its check by simulation (`check`). Does
not belong here: playing a cluster; `simulate` does that.
"""
