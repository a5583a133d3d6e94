"""The soak (`make soak`): random load and faults on the real control plane, watched by an observer.

Belongs here: what is played (`actions`, drawn from a seed), how (`player`, `fault_plan`, `stage`), what is
measured (`vitals`), the run itself (`run`, `shrink`) and its report (`report`). Does not belong here:
anything that Fairlead's components use, and in `observer` anything that is Fairlead's at all.
"""
