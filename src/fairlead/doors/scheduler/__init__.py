"""The scheduler: pods that ask for us by ``schedulerName`` get their nodes from the engine's core.

One *session* is one life of the core: everything is listed, then watched; what the core asks for is
written. A rebuild, a reload and a new leader are all just another session: the cluster is the only
state that survives, so there is one way to start and it is always in use.
"""
