"""How near the runs came to what the meter itself can do, by the calibration in their manifests."""

from collections.abc import Iterator

from brokerlab.record.manifest import Json
from brokerlab.report.numbers import brief, count, known, listed, significant
from brokerlab.report.results import Results, Row

_WAYS = (("send", "publishing", "publishers", "published_recorded_per_s"),
         ("delivery", "receiving", "subscribers", "received_per_s"))  # fmt: skip


def ceilings_text(results: Results) -> str:
    """What the calibration found, and the most that a worker used of it; or why there is none."""
    sections = [manifest["calibration"] for manifest in results.manifests.values() if "calibration" in manifest]
    measured = next((each["value"] for each in sections if each["value"]), None)
    if measured is None:
        reason = next((each["reason"] for each in sections if each["reason"]), None)
        return f"How far the meter was from its own ceilings is not known: {reason}." if reason else ""
    sizes = {row["payload_bytes"] for row in results.runs}
    alike = [each for each in (measured, *measured.get("others", ())) if {each.get("payload_bytes")} == sizes]
    measured = alike[0] if alike else measured
    levels = sorted({str(row["qos"]) for row in results.runs if f"qos{row['qos']}" in measured})
    told = [
        f"{count(measured[f'qos{qos}']['published_recorded_per_s'])} published and "
        f"{count(measured[f'qos{qos}']['received_per_s'])} received at QoS {qos}"
        for qos in levels
    ]
    if not told:
        return ""
    used = [f"{significant(percent)} % in {verb}" for verb, percent in _most(results, measured)]
    most = (
        f" Workers of these runs came to at most {listed(used, last='and')} of that, on the mean of a run."
        if used
        else ""
    )
    return (
        f"Against a broker that does nothing one worker came to {listed(told, last='and')} a second, each message "
        f"recorded (brokerlab calibrate, payloads of {brief(measured.get('payload_bytes', 64))} B over one connection "
        f"of TCP).{most}"
    )


def _most(results: Results, measured: Json) -> Iterator[tuple[str, float]]:
    runs = {row["run_id"]: row for row in results.runs}
    for window, verb, role, ceiling in _WAYS:
        shares = [
            100 * per_s / workers / measured[f"qos{runs[row['run_id']]['qos']}"][ceiling]
            for row in results.throughput
            if row["window"] == window
            and row["run_id"] in runs
            and f"qos{runs[row['run_id']]['qos']}" in measured
            and (workers := _workers(results, row, role))
            and (per_s := known(row["published_per_s" if window == "send" else "delivered_per_s"])) is not None
        ]
        if shares:
            yield verb, max(shares)


def _workers(results: Results, row: Row, role: str) -> int:
    meter = results.manifests.get(row["run_id"], {}).get("meter", {})
    return sum(str(worker["node"]).startswith(role) for worker in meter.get("workers", ()))
