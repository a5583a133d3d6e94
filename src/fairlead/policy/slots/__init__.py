"""Slots: which pod holds which number in its group, and the ledger as their stored form.

Belongs here: taking, keeping, adopting and freeing slots. Does not belong here: the tier that a slot's pod is
sent to (`rule`), and what a door does with the answer (`decide`).
"""
