"""Ranking: which of the feasible nodes is best. Integers only; equal scores go by node name.

Every part gives 0 to `FULL` and is weighted as in kube-scheduler's defaults. What is relative upstream
(preferred terms, soft spreading) is relative to the nodes under consideration here too.
"""
