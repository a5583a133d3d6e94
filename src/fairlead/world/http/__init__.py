"""The API over the wire: `serve` an `Api` on loopback so that kubectl and clients can talk to it.

Transport only: paths, parameters, content types, streams. What a verb *does* is `fairlead.world.api`.
"""

from fairlead.world.http.server import Server, serve, write_kubeconfig

__all__ = ["Server", "serve", "write_kubeconfig"]
