"""Reports: one HTML file that shows the results of simulations, and needs nothing but a browser.

Belongs here: the file (`page`, with its style and script), what it says in words (`words`), tables (`tables`,
`comparison`) and charts (`charts`), and the library that draws these (`plotly_script`). Does not belong here:
playing scenarios, and reading or writing files. All but `plotly_script` are pure functions of results: the
same results give the same bytes.
"""
