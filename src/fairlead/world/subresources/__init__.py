"""What is written through a subresource other than ``status``: binding, eviction, scale."""

from fairlead.world.subresources.binding import stage_bind
from fairlead.world.subresources.eviction import stage_evict
from fairlead.world.subresources.scale import scale_of, stage_scale

__all__ = ["scale_of", "stage_bind", "stage_evict", "stage_scale"]
