"""A real Kubernetes control plane on this machine, for tests, benchmarks and people.

`build` makes its programs from pinned modules, `ControlPlane` runs them; simulated nodes are KWOK's.
Nothing here is imported by the product's doors: what places pods does not know how it is tested.
"""
