"""Placement policies: tiers, the one rule, slots, the ledger's transitions, admission patches.

Nothing here does I/O, reads a clock or draws a random number: doors pass in what is known and when,
and carry the outcome to the API. Every door decides with this code, so they agree.
"""
