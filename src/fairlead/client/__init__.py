"""Talk to an API server: configuration, credentials, requests, reflectors, events, leader election.

Belongs here: everything that puts bytes on a connection to Kubernetes or takes them off it. Does not
belong here: anything that decides what to write. One rule shapes the package: a write whose outcome
is unknown is repeated only if that cannot apply it twice.
"""
