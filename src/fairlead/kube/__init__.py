"""Kubernetes objects as typed data. No I/O, no clock, no policy of our own.

Belongs here: structs with the fields we read, quantities, selectors, tolerations, resource paths,
JSON patches. Does not belong here: anything that decides, talks or waits.
"""
