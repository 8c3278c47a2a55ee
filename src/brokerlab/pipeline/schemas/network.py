"""Links: what they claim and what was measured before the run."""

from brokerlab.pipeline.schemas.kinds import BOOL, TEXT, Among, Table, schema
from brokerlab.pipeline.schemas.manifests import LINK

_KINDS = ("veth", "netem", "userspace")  # those that claim something last

NETWORK = schema(
    run_id=TEXT,
    cell=TEXT,
    **{field.name: field.dataType for field in LINK.fields},
    is_as_claimed=BOOL,
)

TABLE = Table(NETWORK, grain=("run_id", "link"), order=("position", Among("kind", _KINDS), "link"))
