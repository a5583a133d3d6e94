"""Gangs: which pods start together, how many of them, and whether they have started or are evicted.

Belongs here: the spellings in which pods and PodGroups declare a gang, and what owners say of its size.
Does not belong here: where members go and what makes room for them (`planning`), and when a gang is bound
(`core`).
"""
