"""The engine's columnar picture of the cluster; `Snapshot` in `snapshot.py` is the way in."""
