"""What is different about a run that was not made here but imported: section `source` of its manifest.

unknown   what the source does not tell; columns that would need it are null and not zero
told      totals that the source counted itself, by what they count: names of counters
layout    "foreign": deliveries lie in any order and in any file, so Spark sorts them first
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from brokerlab.record.manifest import Json

# What a source may not know; the words stand in the manifest.
PUBLISHED = "published"  # which messages were published beside those that arrived
DELIVERED = "delivered"  # how many deliveries came
EXPECTED = "expected"  # how many deliveries should have come of them
SENT = "sent"  # when a message was handed to the kernel
INTENDED = "intended"  # when it was due
ACKNOWLEDGED = "acknowledged"
IDENTITY = "identity"  # which delivery is of which publication
PAYLOAD = "payload"  # sizes
DUP = "dup"

FOREIGN = "foreign"


@dataclass(frozen=True, slots=True)
class Origin:
    unknown: frozenset[str] = frozenset()
    told: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    is_foreign: bool = False

    def knows(self, what: str) -> bool:
        return what not in self.unknown


HERE = Origin()


def origin_of(manifest: Json) -> Origin:
    """The origin of a run; everything is known of one that was made here."""
    source = manifest.get("source", {})
    return Origin(
        unknown=frozenset(str(word) for word in source.get("unknown", [])),
        told={str(what): tuple(map(str, names)) for what, names in source.get("told", {}).items()},
        is_foreign=source.get("layout") == FOREIGN,
    )
