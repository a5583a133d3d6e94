"""What we know of EC2 instance types: cpus, memory, how many pods their addresses allow, GPUs, architecture.

Prices are not here, they differ by region and month. The number of pods is that of the VPC CNI without
prefixes: every network interface's addresses but its first, and two for pods of the host's network.
"""

from __future__ import annotations

from fairlead.nodegroups.group import InstanceType

GPU = "nvidia.com/gpu"

# Memory in GiB for each vCPU, by the letter that a regular family's name begins with.
_PER_CPU = {"c": 2, "m": 4, "r": 8}

# A regular family's sizes: vCPUs and pods. The families below say which of them they have.
_SIZES = {
    "medium": (1, 8),
    "large": (2, 29),
    "xlarge": (4, 58),
    "2xlarge": (8, 58),
    "4xlarge": (16, 234),
    "8xlarge": (32, 234),
    "9xlarge": (36, 234),
    "12xlarge": (48, 234),
    "16xlarge": (64, 737),
    "18xlarge": (72, 737),
    "24xlarge": (96, 737),
    "32xlarge": (128, 737),
    "48xlarge": (192, 737),
}
_TO_4 = "large xlarge 2xlarge 4xlarge"
_TO_16 = f"{_TO_4} 8xlarge 12xlarge 16xlarge"
_REGULAR = {
    "m5 m5a m5d c5a r5 r5a r5d": f"{_TO_16} 24xlarge",
    "c5 c5d": f"{_TO_4} 9xlarge 12xlarge 18xlarge 24xlarge",
    "m6i c6i r6i": f"{_TO_16} 24xlarge 32xlarge",
    "m6a c6a r6a": f"{_TO_16} 24xlarge 32xlarge 48xlarge",
    "m7i c7i r7i": f"{_TO_16} 24xlarge 48xlarge",
    "m7i-flex c7i-flex": _TO_16,
    "m7a c7a r7a": f"medium {_TO_16} 24xlarge 32xlarge 48xlarge",
    "m6g c6g r6g m7g c7g r7g": f"medium {_TO_16}",
    "m8g c8g r8g": f"medium {_TO_16} 24xlarge 48xlarge",
}

# The others, size by size: vCPUs, GiB, pods, GPUs.
_OTHER: dict[str, dict[str, tuple[int, float, int, int]]] = {
    "t2": {
        "nano": (1, 0.5, 4, 0),
        "micro": (1, 1, 4, 0),
        "small": (1, 2, 11, 0),
        "medium": (2, 4, 17, 0),
        "large": (2, 8, 35, 0),
        "xlarge": (4, 16, 44, 0),
        "2xlarge": (8, 32, 44, 0),
    },
    "t3 t4g": {
        "nano": (2, 0.5, 4, 0),
        "micro": (2, 1, 4, 0),
        "small": (2, 2, 11, 0),
        "medium": (2, 4, 17, 0),
        "large": (2, 8, 35, 0),
        "xlarge": (4, 16, 58, 0),
        "2xlarge": (8, 32, 58, 0),
    },
    "t3a": {
        "nano": (2, 0.5, 4, 0),
        "micro": (2, 1, 4, 0),
        "small": (2, 2, 8, 0),
        "medium": (2, 4, 17, 0),
        "large": (2, 8, 35, 0),
        "xlarge": (4, 16, 58, 0),
        "2xlarge": (8, 32, 58, 0),
    },
    "g4dn": {
        "xlarge": (4, 16, 29, 1),
        "2xlarge": (8, 32, 29, 1),
        "4xlarge": (16, 64, 29, 1),
        "8xlarge": (32, 128, 58, 1),
        "12xlarge": (48, 192, 234, 4),
        "16xlarge": (64, 256, 58, 1),
    },
    "g5": {
        "xlarge": (4, 16, 58, 1),
        "2xlarge": (8, 32, 58, 1),
        "4xlarge": (16, 64, 234, 1),
        "8xlarge": (32, 128, 234, 1),
        "12xlarge": (48, 192, 737, 4),
        "16xlarge": (64, 256, 234, 1),
        "24xlarge": (96, 384, 737, 4),
        "48xlarge": (192, 768, 345, 8),
    },
    "g6": {
        "xlarge": (4, 16, 58, 1),
        "2xlarge": (8, 32, 58, 1),
        "4xlarge": (16, 64, 234, 1),
        "8xlarge": (32, 128, 234, 1),
        "12xlarge": (48, 192, 234, 4),
        "16xlarge": (64, 256, 737, 1),
        "24xlarge": (96, 384, 737, 4),
        "48xlarge": (192, 768, 737, 8),
    },
    "p4d": {"24xlarge": (96, 1152, 737, 8)},
    "p5": {"4xlarge": (16, 256, 118, 1), "48xlarge": (192, 2048, 100, 8)},
}


def _families() -> dict[str, dict[str, tuple[int, float, int, int]]]:
    found = {family: sizes for families, sizes in _OTHER.items() for family in families.split()}
    for families, sizes in _REGULAR.items():
        for family in families.split():
            of_each = _PER_CPU[family[0]]
            found[family] = {
                size: (cpus, cpus * of_each, pods, 0)
                for size, (cpus, pods) in ((size, _SIZES[size]) for size in sizes.split())
            }
    return dict(sorted(found.items()))


FAMILIES = _families()
"""Family → size → vCPUs, GiB, pods, GPUs."""


def instance_type(name: str) -> InstanceType | None:
    """What is known of a type of that name, None when it is not in the catalogue.

    >>> found = instance_type("t3a.medium")
    >>> found.capacity, found.architecture
    ({'cpu': '2', 'memory': '4Gi', 'pods': '17'}, 'amd64')
    >>> instance_type("t3a.enormous") is None
    True
    """
    family, _, size = name.partition(".")
    known = FAMILIES.get(family, {}).get(size)
    if known is None:
        return None
    cpus, gib, pods, gpus = known
    memory = f"{gib}Gi" if isinstance(gib, int) else f"{round(gib * 1024)}Mi"
    return InstanceType(
        name=name,
        capacity={
            "cpu": str(cpus),
            "memory": memory,
            "pods": str(pods),
            **({GPU: str(gpus)} if gpus else {}),
        },
        architecture=architecture(name),
    )


def architecture(name: str) -> str:
    """What a type's processor is, known type or not: Graviton families have a g behind their generation.

    >>> [architecture(name) for name in ("m7g.large", "t4g.small", "c7gn.large", "g5.xlarge", "m7i.large")]
    ['arm64', 'arm64', 'arm64', 'amd64', 'amd64']
    """
    family = name.partition(".")[0]
    generation = family.lstrip("abcdefghijklmnopqrstuvwxyz")
    return "arm64" if generation[1:2] == "g" or family == "a1" else "amd64"
