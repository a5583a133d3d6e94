"""Clouds: what autoscalers and Terraform take, made from node groups, and what an account says of them.

Belongs here: text and objects for AWS, Karpenter and Cluster Autoscaler, calls of a cloud's API, and the
doctor that compares the two. Does not belong here: the model of a group and autoscalers' rules on it
(`nodegroups`), or anything that makes nodes of a simulated cluster (`world`).
"""
