"""Ranking: which of the feasible nodes is best. Integers only; equal scores go by node name.

Every part gives 0 to `FULL` and is weighted as in kube-scheduler's defaults. What is relative upstream
(preferred terms, soft spreading) is relative to the nodes under consideration here too.

Belongs here: scores, the choice, and choices for many pods in one go. Does not belong here: whether a
node may be chosen at all (`rules`), and what is tried when no node is left (`planning`).
"""
