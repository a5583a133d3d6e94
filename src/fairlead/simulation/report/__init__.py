"""Reports: one HTML file that shows the results of simulations, and needs nothing but a browser.

Belongs here: the file (`document`, with its style and script), of results (`page`) and of a whole sweep
(`sweep_page`); what they say in words (`words`, `measures`, `sweep_rows`), tables (`tables`, `comparison`)
and charts (`chart`, `charts`, `sweep_charts`), and the library that draws these (`plotly_script`). Does not
belong here: playing scenarios, and reading or writing files. All but `plotly_script` are pure functions of
results or of a sweep's table: the same ones give the same bytes.
"""
