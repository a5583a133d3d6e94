"""The engine: one pure, deterministic decision maker over a picture of the cluster.

It is made of rooms, and imports go down only:

    ask   rebalance   questions about a cluster as it stands | what the rebalancer moves back
    core              the scheduler without its I/O: events and time in, actions out
    policies          which tier each waiting pod is sent to
    planning          units, their order, placing them together, victims, promises
    gangs   ranking   which pods start together | which of the feasible nodes is best
    rules             where a pod may go, and why not elsewhere
    snapshot          the cluster in columns, pods by class

Belongs here: what decides, without I/O, clocks or random numbers; time and ids are passed in. Does not belong
here: Kubernetes' objects themselves (`fairlead.kube`), the placement rule (`fairlead.policy`), node groups
(`fairlead.nodegroups`). No module stands outside of the rooms.
"""
