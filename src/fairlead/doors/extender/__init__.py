"""The door for an unchanged kube-scheduler: it asks over HTTP, we answer with the nodes of one tier.

Nothing is written before kube-scheduler has decided; what it decided is only seen in the watch.
"""
