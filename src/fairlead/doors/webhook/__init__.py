"""The webhook: AdmissionReviews in, patches and ledger writes out.

Belongs here: TLS and registration, reading reviews, watching what admission reads, and writing ledgers
by compare-and-swap. What a pod is given is decided in `fairlead.policy`.
"""
