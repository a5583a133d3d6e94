"""Tenants: a name and a type become several objects on a cluster, and are kept as the type says.

Belongs here: the types and their templates, the objects made from them, and how these are applied, waited
for and removed. Does not belong here: nodes, which autoscalers bring, and where a pod goes, which
schedulers decide; tenants' pods only say what they need in terms that both understand.
"""
