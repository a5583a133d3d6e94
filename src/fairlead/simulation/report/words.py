"""Numbers of a result as readers want them: spans, shares, amounts; and the sentences of the headline."""

from __future__ import annotations

from dataclasses import dataclass

from fairlead.simulation.simulate.result import Result, WorkloadResult

FIRM = "\N{NO-BREAK SPACE}"
"""Between a number and its unit: a line does not end there."""

_ALMOST = 1 - 1e-9
_BYTES = ("memory", "ephemeral-storage")
_GIB = 1 << 30
_UNITS = (("d", 86400), ("h", 3600), ("min", 60), ("s", 1))
_FEW_MINUTES_S = 120


@dataclass(frozen=True, slots=True)
class Headline:
    """A number that comes first: what it is, the number, and a sentence about it."""

    label: str
    value: str
    sentence: str


def span(seconds: float) -> str:
    """A span of time in its two largest units.

    >>> [span(one).replace(FIRM, " ") for one in (0, 0.25, 12.34, 1375, 7200, 187200.4)]
    ['0 s', '0.25 s', '12.3 s', '22 min 55 s', '2 h', '2 d 4 h']
    """
    if seconds < _FEW_MINUTES_S:
        return f"{seconds:.3g}{FIRM}s"
    left = round(seconds)
    parts = []
    for unit, size in _UNITS:
        number, left = divmod(left, size)
        parts.append((number, unit))
    first = next(place for place, (number, _) in enumerate(parts) if number)
    return " ".join(f"{number}{FIRM}{unit}" for number, unit in parts[first : first + 2] if number)


def number(value: float, digits: int = 2) -> str:
    """A number with groups of three digits, and decimals only where it has some.

    >>> number(4243), number(0.5), number(1234.5678), number(-2.0), number(0.0042)
    ('4,243', '0.5', '1,234.57', '-2', '0.0042')
    """
    if value and abs(value) < 10**-digits:
        return f"{value:.2g}"
    text = f"{value:,.{digits}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def money(value: float) -> str:
    """An amount in the unit of the scenario's prices.

    >>> money(240), money(0.9822), money(0.0042)
    ('240.00', '0.98', '0.0042')
    """
    return f"{value:.2g}" if value and abs(value) < 0.01 else f"{value:,.2f}"


def share(value: float, digits: int = 1) -> str:
    """A share in percent. What is not quite all is never shown as all, nor a little as nothing.

    >>> share(0.88), share(1.0), share(0.99999), share(0.00001), share(0.999731, 4)
    ('88.0%', '100.0%', '>99.9%', '<0.1%', '99.9731%')
    """
    text, step = f"{value:.{digits}%}", 10.0**-digits
    if value < 1 and text == f"{1:.{digits}%}":
        return f">{100 - step:.{digits}f}%"
    if value > 0 and text == f"{0:.{digits}%}":
        return f"<{step:.{digits}f}%"
    return text


def availability(value: float) -> str:
    """The share of time in which a workload had its minimum.

    >>> availability(1.0), availability(0.999731), availability(0.99999999)
    ('100%', '99.9731%', '>99.9999%')
    """
    return "100%" if value >= 1 else share(value, 4)


def available(one: WorkloadResult) -> float | None:
    """The share of time in which a workload had its minimum, None where it has none.

    A result in a file has it rounded; after an outage, however short, it is never all.
    """
    return (
        min(one.availability, _ALMOST) if one.availability is not None and one.outages else one.availability
    )


def amount(resource: str, value: float) -> str:
    """So much of a resource.

    >>> [amount(*one).replace(FIRM, " ") for one in (("cpu", 320), ("memory", 2**33), ("nvidia.com/gpu", 8))]
    ['320 cores', '8 GiB', '8']
    """
    size, unit = unit_of(resource)
    return f"{number(value / size)}{FIRM}{unit}" if unit else number(value)


def unit_of(resource: str) -> tuple[float, str]:
    """The unit in which amounts of a resource are told: its size, and its name."""
    if resource in _BYTES or resource.startswith("hugepages-"):
        return float(_GIB), "GiB"
    return 1.0, "cores" if resource == "cpu" else ""


def counted(count: int, what: str) -> str:
    """A number of things.

    >>> counted(1, "pod"), counted(4243, "pod")
    ('1 pod', '4,243 pods')
    """
    return f"{count:,} {what}" + ("" if count == 1 else "s")


def headlines(result: Result) -> tuple[Headline, ...]:
    """What a reader wants to know first."""
    pods, waits = result.pods, result.waits
    finished = f"{pods.finished:,}" if pods.finished else "none"
    gone = pods.arrived - pods.placed - pods.pending
    deleted = f" {gone:,} were deleted before they had one." if gone > 0 else ""
    found = [
        Headline(
            "Placed",
            f"{pods.placed:,} of {pods.arrived:,}",
            f"{counted(pods.arrived, 'pod')} arrived; {pods.placed:,} got a node, and {finished} finished."
            + deleted,
        ),
        Headline("Pending at the end", f"{pods.pending:,}", _pending(result)),
        Headline(
            "Wait of 95% of pods",
            f"≤ {span(waits.p95)}",
            f"Half of the placed pods waited {span(waits.p50)} or less for their node; the longest wait was "
            f"{span(waits.max)}."
            if pods.placed
            else "No pod was placed, so no wait was measured.",
        ),
        Headline(
            "Cost",
            money(result.cost),
            f"{money(result.cost_per_hour)} per hour on average, in the unit of the scenario's prices."
            if result.cost
            else "No node that was used has a price.",
        ),
    ]
    found += _availability(result)
    taken = sum(one.taken for one in result.groups)
    found.append(
        Headline(
            "Evicted",
            f"{pods.evicted:,}",
            f"{counted(pods.evicted, 'pod')} evicted and {pods.moved:,} moved by the rebalancer; "
            f"{counted(taken, 'node')} taken away by markets or faults.",
        )
    )
    return tuple(found)


def _pending(result: Result) -> str:
    if not result.pods.pending:
        return "No pod was waiting for a node at the end."
    if not result.waiting:
        return f"{counted(result.pods.pending, 'pod')} had no node at the end."
    reason = "The reason" if len(result.waiting) == 1 else "The most common reason"
    return f"{reason}: {result.waiting[0].text}."


def worst_first(result: Result) -> list[WorkloadResult]:
    """The workloads that have a minimum, those that had it for the smallest share of time first."""
    measured = ((available(one), one) for one in result.workloads)
    ranked = [(found, -one.below_s, one.name, one) for found, one in measured if found is not None]
    return [one for *_, one in sorted(ranked, key=lambda each: each[:3])]


def _availability(result: Result) -> list[Headline]:
    measured = worst_first(result)
    if not measured:
        return []
    worst = measured[0]
    lowest = available(worst)
    assert lowest is not None
    full = sum(available(one) == 1 for one in measured)
    if len(measured) == 1:
        text = had_its_minimum(worst)
    elif full == len(measured):
        text = f"Each of {len(measured)} workloads with a minimum had it all the time."
    else:
        text = f"{had_its_minimum(worst)} {full} of {len(measured)} workloads had theirs all the time."
    label = "Availability" if len(measured) == 1 else "Lowest availability"
    return [Headline(label, availability(lowest), text)]


def had_its_minimum(one: WorkloadResult) -> str:
    """A workload's ready pods against its minimum, in a sentence."""
    wanted = f"its minimum of {counted(one.min_available or 0, 'ready pod')}"
    if available(one) == 1:
        return f"{one.name} had {wanted} all the time."
    if not one.outages:
        return f"{one.name} never had {wanted}."
    times = "once" if one.outages == 1 else f"{one.outages:,} times"
    longest = "" if one.outages == 1 else f", at most {span(one.longest_outage_s)} at a time"
    return f"{one.name} was below {wanted} {times}, for {span(one.below_s)} in all{longest}."
