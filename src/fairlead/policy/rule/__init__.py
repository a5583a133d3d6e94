"""The one rule and what it reads: policies, workloads, what disruption budgets demand.

Belongs here: what follows from a policy, a workload and numbers alone. Does not belong here: pods and nodes
that exist (`groups`, `tiers`) and slots that are taken (`slots`).
"""
