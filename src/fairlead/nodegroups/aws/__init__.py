"""Node groups as AWS has them, and Cluster Autoscaler's rules on them. Pure: what was read is passed in.

- `CloudState` (`AutoScalingGroup`, `EksNodegroup`, …): what an account says; from and to plain data
  (`read_state(documents)`, `state.to_plain()`: the file of ``doctor --save`` and ``--from-file``).
- `demanded_tags(group, cluster)`: every tag that a group's Auto Scaling group needs to be found and to be
  brought up from zero. The one place: Terraform, the doctor and the embedded cluster all ask it.
- `template_from(asg, answer, version=…, now=…, memory=…, live=…, name=…)` → `Template(node, source, said)`:
  the node that Cluster Autoscaler imagines for a group. `answer` is what ``eks:DescribeNodegroup`` would
  say now: `state.answer_for(asg)` gives an `EksNodegroup`, a `NoAnswer` (denied, unreachable) or None (not
  a managed group). `Memory` is what one running autoscaler remembers between looks; keep one per process.
- `Version.read("v1.29.3")`: which of its versions does what.
"""

from fairlead.nodegroups.aws.state import (
    AutoScalingGroup,
    CloudState,
    EksNodegroup,
    EksTaint,
    NoAnswer,
    read_state,
)
from fairlead.nodegroups.aws.tags import demanded_tags
from fairlead.nodegroups.aws.template import Memory, Template, Version, good_example, template_from

__all__ = [
    "AutoScalingGroup",
    "CloudState",
    "EksNodegroup",
    "EksTaint",
    "Memory",
    "NoAnswer",
    "Template",
    "Version",
    "demanded_tags",
    "good_example",
    "read_state",
    "template_from",
]
