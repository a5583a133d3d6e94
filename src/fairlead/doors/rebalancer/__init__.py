"""The rebalancer: watches in, marks, deletions of pending pods and evictions out.

What decides is `fairlead.engine.rebalancer`; here are its eyes (`watching`), its hands (`carrying`),
its voice (`telling`) and when it may use them (`door`).
"""
