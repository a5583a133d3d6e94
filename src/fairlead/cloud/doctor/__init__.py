"""The doctor: why a pod gets no node from zero, with the evidence and the way out.

Belongs here: named causes, how each is recognised in what an account, a cluster and a log say, and how they
are ordered. Does not belong here: calls of AWS (`fairlead.cloud.account`), an autoscaler's own rules
(`fairlead.nodegroups.aws`), or any rule on where a pod fits: those are the engine's.
"""

from fairlead.cloud.doctor.autoscaler import CaSettings, Evidence, read_log
from fairlead.cloud.doctor.diagnosis import diagnose
from fairlead.cloud.doctor.findings import CAUSES, Finding, Report, TagChange, Verdict

__all__ = [
    "CAUSES",
    "CaSettings",
    "Evidence",
    "Finding",
    "Report",
    "TagChange",
    "Verdict",
    "diagnose",
    "read_log",
]
