"""The embedded cluster: objects with resourceVersions, the API server's semantics, and what runs on them.

Two halves. The API half is `store` (objects and their history), `api` (the REST verbs as plain
method calls, with the API server's answers), `schema` (what is served, defaults, validation),
`patches`, `admission`, and `http` (the same verbs over the wire). The machinery half (controllers,
kubelet, autoscaler, clocks) only ever talks to `api`. Nothing here imports a door.

Rule of the house: an object that was read from the store is shared and is never changed in place;
a writer builds a new one.
"""
