"""Planning: what is done for each waiting unit (a pod or a gang), in which order, and which pods leave.

Belongs here: units and their order, priority, placing pods together, victims and disruption budgets, the
room that is promised to others, whether a tier's nodes would take a pod (`tier_fit`), and the settings of all
that. Does not belong here: which nodes a rule
allows (`rules`) and which of them is best (`ranking`); what is remembered from one event to the next
(`core`).
"""
