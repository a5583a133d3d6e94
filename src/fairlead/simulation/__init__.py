"""What would happen: a cluster as it was found, going on in virtual time with the code that decides live.

Belongs here: a cluster's copy (`cluster_copy`), what is done to it (`changes`, `drain`; `change_text` is how
that is written), how it ended (`outcome`), and both ways compared (`whatif`; node by node in `difference`).
Nothing is decided here: engine, policy and the embedded cluster do that. Does not belong here: reading
clusters or files, and showing results; `cli` and `web` do both.
"""
