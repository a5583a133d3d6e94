"""The engine's columnar picture of the cluster; `Snapshot` in `snapshot.py` is the way in.

Belongs here: nodes as columns, pods by class, what is counted of placed pods, storage, and trials that
leave no trace. Does not belong here: any judgement of where a pod may or should go (`rules`, `ranking`).
"""
