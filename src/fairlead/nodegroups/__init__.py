"""Node groups: what a cloud can make nodes of, and the node that each group would bring from zero.

Belongs here: the model and the template made from it. Does not belong here: anything that calls a
cloud, decides on sizes or waits for a node to boot.
"""

from fairlead.nodegroups.group import GROUP_LABEL, InstanceType, NodeGroup, node_of, read_groups, template_of

__all__ = ["GROUP_LABEL", "InstanceType", "NodeGroup", "node_of", "read_groups", "template_of"]
