"""One scenario played for every combination of parameters, and the table that comes of it.

Belongs here: parameters and their combinations (`parameters`, `grid`), a scenario's data with other values
(`variation`), what one run is and what it is kept under (`run`), results in a folder (`kept`), where runs
are played (`local_workers`, with `worker` in each process; `dask_cluster`), and rows of results (`columns`,
`table`). `sweep` puts these together. Does not belong here: playing a scenario, `simulate` does that; and
showing tables.
"""
