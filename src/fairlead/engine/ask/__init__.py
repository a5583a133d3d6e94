"""Questions about a cluster as it stands: the engine's public API, for objects without a scheduler.

Belongs here: `Cluster`, made from any Kubernetes objects; what a pod, workload or gang waits for, why a pod
fits or not, what would make it fit; the plan for all that waits, the queue, fill and cost; and the fit of a
pod on a node that does not exist yet. Does not belong here: reading a live cluster, which is what
`fairlead.feed.cluster` does, and what a running scheduler needs; `core` and below know nothing of it.
"""
