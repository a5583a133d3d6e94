"""Playing a scenario in virtual time, and what came of it.

Belongs here: the pods and the supply of nodes that a scenario draws (`streams`, `supply`), the two clusters
that can play one (`batch_cluster`, where nothing but Fairlead's scheduler acts, and `whole_cluster`), what
is counted meanwhile (`tally`) and the result (`result`). Does not belong here: what is decided; and
reports, sweeps and plans, which are made from results.
"""
