"""The dashboard: a page that shows placement as it happens. Read-only everywhere.

`board` is what the page shows of pods and nodes, row by row, and `history` keeps what changed in it, so that
a browser can go on where it was. `live` feeds both from watches, `answers` asks the engine about the same
objects. `whatif` has what would happen worked out, in a process of its own (`whatif_process`). `access` says
who may look, `server` answers browsers, and `door` is all of it as a component. `page` holds what is sent to
the browser as it is: modules, styles, no build step.

What is decided, or worked out about a pod, belongs in `engine.ask`; here it is only carried to a browser.
"""
