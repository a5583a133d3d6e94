"""Controllers as pure functions: a view of the cluster and the time in, writes out.

Belongs here: what kube-controller-manager does, one controller per module, and what they share.
Does not belong here: carrying writes out, waiting, reading a clock (see world/runner.py).
"""
