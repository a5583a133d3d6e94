"""Decisions of the extender: which of the nodes that kube-scheduler offers a pod may go to.

Nothing is written before kube-scheduler has decided, so slots and nodes are assumed until the watch shows
what became of them.
"""
