"""Fairlead's own objects on a cluster: rendered from the shipped manifests and values, applied, removed.

The manifests in ``deploy/`` are the one source of what kustomize, the chart ``charts/fairlead`` and `fairlead
install` put on a cluster; the chart's ``components.yaml``, ``values.yaml`` and ``values.schema.json`` serve
the latter two. `manifests`, `values`, `schema` and `rendering` are pure but for reading those files;
`installed`, `leftovers`, `rollout` and `changes` talk to a cluster. Tenants' objects are not ours
(`fairlead.tenants`), nor are policies and ledgers.
"""
