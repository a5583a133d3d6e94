"""The rebalancer: watches in, marks, deletions of pending pods and evictions out.

What decides is `fairlead.engine.rebalance.rebalancer`; here are its eyes (`watching`), its hands
(`executor`), its voice (`tier_events`) and when it may use them (`door`).
"""
