"""The door for an unchanged kube-scheduler: it asks over HTTP, we answer with the nodes of one tier.

Nothing is written before kube-scheduler has decided; we learn what it decided from the watch alone.
"""
