"""Sees a cluster from outside and says which of Fairlead's invariants does not hold.

Belongs here: what reads the API server's watches and audit log and judges them. Nothing in here may import
Fairlead, the tests or the rest of the soak: an error that both sides share would go unnoticed. A test
enforces that.
"""
