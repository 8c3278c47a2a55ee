"""The shape of a study file (design section 8), as pydantic models with the file's own key names.

Each model checks one mapping alone and turns into its frozen value; what concerns two places of
the file at once is in rules.py. Defaults are those of values.py.
"""

from collections.abc import Collection, Mapping
from typing import Annotated, ClassVar

from pydantic import BeforeValidator, Field, JsonValue, PlainValidator

from brokerlab.study import access, bridging, ensemble, factor, factors, life, names, readers, roles, wills
from brokerlab.study import values as v
from brokerlab.study.ensemble import EnsemblePart, PlacementPart
from brokerlab.study.faults import FaultPart, NemesisPart
from brokerlab.study.life import LifePart
from brokerlab.study.limits import Cpus, LimitsPart, MemoryBytes
from brokerlab.study.link_part import LinkRate, Loss, Profile, Rtt
from brokerlab.study.mqtt5 import Expiry, Mqtt5Part, Properties, PropertyBytes, ReceiveMaximum, Switch
from brokerlab.study.part import Part
from brokerlab.study.pause import PauseDuration, PausePart
from brokerlab.study.payload import PayloadPart, as_mapping
from brokerlab.study.subscriptions import Churn, Kind, SubscriptionsPart, Table, TableClients
from brokerlab.study.topics_part import Count, Depth, Length, Retain, TopicsPart
from brokerlab.study.topology import LOOPBACK
from brokerlab.study.topology_part import TopologyPart

_WORKLOAD = v.Workload()
_DEPLOY = v.Deploy()
_ANALYSIS = v.Analysis()

Clients = Annotated[int, PlainValidator(factors.read_clients)]
Content = Annotated[v.Content, PlainValidator(factors.read_content)]
PayloadBytes = Annotated[int, PlainValidator(factors.read_payload_bytes)]
RatePerS = Annotated[float, PlainValidator(factors.read_rate_per_s)]
LimitMs = Annotated[float, PlainValidator(factors.read_p99_ms)]
Window = Annotated[int | str, PlainValidator(factors.read_window)]
Speed = Annotated[float, PlainValidator(factors.read_speed)]
Inflight = Annotated[int | None, PlainValidator(factors.read_inflight)]
Protocol = Annotated[str, PlainValidator(factors.read_protocol)]
QosLevel = Annotated[int, PlainValidator(factors.read_qos)]
TransportName = Annotated[v.Transport, PlainValidator(access.read_transport)]
CertificatesChoice = Annotated[v.Certificates, PlainValidator(access.read_certificates)]
Role = Annotated[str, PlainValidator(roles.read_role)]
StartKind = Annotated[str, PlainValidator(roles.read_start)]
Broker = Annotated[str, PlainValidator(factors.read_broker)]
Name = Annotated[str, PlainValidator(factors.read_name)]
Text = Annotated[str, PlainValidator(readers.read_text)]
Locality = Annotated[float | str, PlainValidator(ensemble.read_locality)]
Phase = Annotated[float, PlainValidator(readers.read_phase_s)]
NeededPhase = Annotated[float, PlainValidator(readers.read_needed_phase_s)]


class GoalsPart(Part):
    question: Text
    rank_by: Annotated[str, PlainValidator(readers.read_rank)] = v.Goals(question="").rank_by

    def value(self) -> v.Goals:
        return v.Goals(question=self.question, rank_by=self.rank_by)


class BrokerPart(Part):
    moved: ClassVar[Mapping[str, str]] = names.BROKER_KEYS_MOVED

    driver: Text
    preset: Text = "stock"
    optional: bool = False
    options: dict[str, JsonValue] = Field(default_factory=dict)

    def value(self, name: str) -> v.BrokerChoice:
        return v.BrokerChoice(name, self.driver, self.preset, self.optional, self.options)


class SystemPart(Part):
    brokers: dict[Name, BrokerPart] = Field(min_length=1)
    ensemble: EnsemblePart = EnsemblePart()
    limits: LimitsPart = LimitsPart()

    def value(self) -> v.System:
        brokers = tuple(part.value(name) for name, part in self.brokers.items())
        return v.System(brokers=brokers, ensemble=self.ensemble.value(), limits=self.limits.value())


class SchedulePart(Part):
    arrivals: Annotated[v.Arrivals, PlainValidator(readers.read_arrivals)] = _WORKLOAD.schedule.arrivals
    rate: RatePerS = _WORKLOAD.schedule.rate_per_s
    window: Window = _WORKLOAD.schedule.window
    jitter: Annotated[float, PlainValidator(readers.read_jitter_percent)] = _WORKLOAD.schedule.jitter_percent
    burst: Annotated[int, PlainValidator(factors.read_burst)] = _WORKLOAD.schedule.burst
    to: RatePerS = _WORKLOAD.schedule.to_per_s
    rates: list[RatePerS] = Field(default=[], min_length=1)
    store: Annotated[float, PlainValidator(readers.read_store_s)] = _WORKLOAD.schedule.store_s
    within: NeededPhase = _WORKLOAD.schedule.within_s
    speed: Speed = _WORKLOAD.schedule.speed
    p99: LimitMs = _WORKLOAD.schedule.p99_ms
    from_: RatePerS = Field(default=_WORKLOAD.schedule.from_per_s, alias="from")
    precision: Annotated[float, PlainValidator(readers.read_precision_percent)] = _WORKLOAD.schedule.precision_percent
    trial: NeededPhase = _WORKLOAD.schedule.trial_s
    inflight: Inflight = _WORKLOAD.schedule.inflight

    def value(self) -> v.Schedule:
        return v.Schedule(
            arrivals=self.arrivals,
            rate_per_s=self.rate,
            window=self.window,
            jitter_percent=self.jitter,
            burst=self.burst,
            to_per_s=self.to,
            rates_per_s=tuple(self.rates),
            store_s=self.store,
            within_s=self.within,
            speed=self.speed,
            p99_ms=self.p99,
            from_per_s=self.from_,
            precision_percent=self.precision,
            trial_s=self.trial,
            inflight=self.inflight,
        )


class WorkloadPart(Part):
    publishers: Clients = _WORKLOAD.publishers
    subscribers: Clients = _WORKLOAD.subscribers
    topics: TopicsPart = TopicsPart()
    payload: Annotated[PayloadPart, BeforeValidator(as_mapping)] = PayloadPart()
    schedule: SchedulePart = SchedulePart()
    qos: QosLevel = int(_WORKLOAD.qos)
    retain: Retain = factor.OFF
    protocol: Protocol = _WORKLOAD.protocol
    transport: TransportName = _WORKLOAD.transport
    certificates: CertificatesChoice = _WORKLOAD.certificates
    permissions: Switch = factor.OFF
    credentials: access.CredentialsPart = access.CredentialsPart()
    clients: LifePart = LifePart()
    role: Role = _WORKLOAD.role.value
    echo: roles.EchoPart = roles.EchoPart()
    probe: roles.ProbePart | None = None
    will: wills.WillPart | None = None
    pause: PausePart | None = None
    mqtt5: Mqtt5Part = Mqtt5Part()
    subscriptions: SubscriptionsPart = SubscriptionsPart()
    start: StartKind = _WORKLOAD.start.value

    def value(self) -> v.Workload:
        return v.Workload(
            publishers=self.publishers,
            subscribers=self.subscribers,
            topics=self.topics.value(),
            payload_bytes=self.payload.size_bytes,
            payload=self.payload.value(),
            schedule=self.schedule.value(),
            qos=v.Qos(self.qos),
            retain=self.retain == factor.ON,
            protocol=self.protocol,
            transport=self.transport,
            certificates=self.certificates,
            permissions=self.permissions == factor.ON,
            credentials=self.credentials.value(),
            clients=self.clients.value(),
            role=v.Roles(self.role),
            echo=self.echo.value(),
            probe=None if self.probe is None else self.probe.value(),
            will=None if self.will is None else self.will.value(),
            pause=None if self.pause is None else self.pause.value(),
            mqtt5=self.mqtt5.value(),
            subscriptions=self.subscriptions.value(),
            start=v.Start(self.start),
        )


class VariablesPart(Part):
    """One key for each factor of factors.py; an absent key is no factor, an empty list is refused."""

    later: ClassVar[tuple[str, ...]] = names.FACTORS_LATER

    broker: list[Broker] = Field(default=[], min_length=1)
    qos: list[QosLevel] = Field(default=[], min_length=1)
    payload: list[PayloadBytes] = Field(default=[], min_length=1)
    content: list[Content] = Field(default=[], min_length=1)
    rate: list[RatePerS] = Field(default=[], min_length=1)
    publishers: list[Clients] = Field(default=[], min_length=1)
    subscribers: list[Clients] = Field(default=[], min_length=1)
    protocol: list[Protocol] = Field(default=[], min_length=1)
    transport: list[TransportName] = Field(default=[], min_length=1)
    certificates: list[CertificatesChoice] = Field(default=[], min_length=1)
    permissions: list[Switch] = Field(default=[], min_length=1)
    users: list[Switch] = Field(default=[], min_length=1)
    window: list[Window] = Field(default=[], min_length=1)
    speed: list[Speed] = Field(default=[], min_length=1)
    inflight: list[Inflight] = Field(default=[], min_length=1)
    behaviour: list[Annotated[str, PlainValidator(life.read_behaviour)]] = Field(default=[], min_length=1)
    connect_rate: list[Annotated[float, PlainValidator(life.read_connect_rate_per_s)]] = Field(default=[], min_length=1)
    lifetime: list[Annotated[float, PlainValidator(life.read_life_s)]] = Field(default=[], min_length=1)
    every: list[Annotated[float, PlainValidator(life.read_life_s)]] = Field(default=[], min_length=1)
    session: list[Annotated[str, PlainValidator(life.read_session)]] = Field(default=[], min_length=1)
    keep_alive: list[Annotated[int, PlainValidator(life.read_keep_alive_s)]] = Field(default=[], min_length=1)
    idle: list[Annotated[int, PlainValidator(life.read_idle)]] = Field(default=[], min_length=1)
    addresses: list[Annotated[int, PlainValidator(life.read_address_count)]] = Field(default=[], min_length=1)
    p99: list[LimitMs] = Field(default=[], min_length=1)
    role: list[Role] = Field(default=[], min_length=1)
    echo_qos: list[QosLevel] = Field(default=[], min_length=1)
    start: list[StartKind] = Field(default=[], min_length=1)
    will_qos: list[QosLevel] = Field(default=[], min_length=1)
    will_delay: list[wills.Delay] = Field(default=[], min_length=1)
    pause: list[PauseDuration] = Field(default=[], min_length=1)
    topics: list[Count] = Field(default=[], min_length=1)
    depth: list[Depth] = Field(default=[], min_length=1)
    length: list[Length] = Field(default=[], min_length=1)
    retain: list[Retain] = Field(default=[], min_length=1)
    user_properties: list[Properties] = Field(default=[], min_length=1)
    property_bytes: list[PropertyBytes] = Field(default=[], min_length=1)
    metadata: list[Switch] = Field(default=[], min_length=1)
    topic_alias: list[Switch] = Field(default=[], min_length=1)
    expiry: list[Expiry] = Field(default=[], min_length=1)
    receive_maximum: list[ReceiveMaximum] = Field(default=[], min_length=1)
    subscription_identifiers: list[Switch] = Field(default=[], min_length=1)
    response_topic: list[Switch] = Field(default=[], min_length=1)
    session_expiry: list[Expiry] = Field(default=[], min_length=1)
    subscriptions: list[Table] = Field(default=[], min_length=1)
    filter_kind: list[Kind] = Field(default=[], min_length=1)
    churn: list[Churn] = Field(default=[], min_length=1)
    filter_clients: list[TableClients] = Field(default=[], min_length=1)
    cpus: list[Cpus] = Field(default=[], min_length=1)
    memory: list[MemoryBytes] = Field(default=[], min_length=1)
    profile: list[Profile] = Field(default=[], min_length=1)
    rtt: list[Rtt] = Field(default=[], min_length=1)
    link_rate: list[LinkRate] = Field(default=[], min_length=1)
    loss: list[Loss] = Field(default=[], min_length=1)
    nodes: list[Annotated[int, PlainValidator(ensemble.read_nodes)]] = Field(default=[], min_length=1)
    join: list[Annotated[str, PlainValidator(ensemble.read_join)]] = Field(default=[], min_length=1)
    locality: list[Locality] = Field(default=[], min_length=1)
    publishers_at: list[Annotated[str, PlainValidator(ensemble.read_spot_word)]] = Field(default=[], min_length=1)
    subscribers_at: list[Annotated[str, PlainValidator(ensemble.read_spot_word)]] = Field(default=[], min_length=1)
    bridge_per: list[Annotated[str, PlainValidator(bridging.read_per)]] = Field(default=[], min_length=1)
    bridge_connections: list[Annotated[str, PlainValidator(bridging.read_connections)]] = Field(
        default=[], min_length=1
    )

    def levels(self, factor: str) -> tuple[v.Level, ...]:
        return tuple(getattr(self, factor))


def _as_mapping(written: object) -> object:
    """A topology without settings may be written as its bare name."""
    return {"shape": written} if isinstance(written, str) else written


class ScenarioPart(Part):
    workload: WorkloadPart = WorkloadPart()
    variables: VariablesPart = VariablesPart()
    placement: PlacementPart = PlacementPart()
    locality: Locality | None = None
    topology: Annotated[TopologyPart, BeforeValidator(_as_mapping)] = TopologyPart(shape=LOOPBACK)
    faults: list[FaultPart] = Field(default=[], min_length=1)
    nemesis: NemesisPart | None = None


class PhasesPart(Part):
    idle: Phase = _DEPLOY.phases.idle_s
    warmup: Phase = _DEPLOY.phases.warmup_s
    measure: NeededPhase = _DEPLOY.phases.measure_s
    drain: NeededPhase = _DEPLOY.phases.drain_s

    def value(self) -> v.Phases:
        return v.Phases(self.warmup, self.measure, self.drain, self.idle)


class DeployPart(Part):
    repetitions: Annotated[int, PlainValidator(readers.read_repetitions)] = _DEPLOY.repetitions
    seed: Annotated[int, PlainValidator(readers.read_seed)] = _DEPLOY.seed
    phases: PhasesPart = PhasesPart()
    load_on: Annotated[str, PlainValidator(readers.read_load_on)] = _DEPLOY.load_on
    captures: list[Annotated[str, PlainValidator(readers.read_tap)]] = Field(default=[])

    def value(self, metrics: Collection[str] = ()) -> v.Deploy:
        """Traffic is told from packets at the brokers, unless the study says where they are taken, or that none are."""
        is_asked = "traffic" in metrics and "captures" not in self.model_fields_set
        taps = ("broker",) if is_asked else tuple(self.captures)
        return v.Deploy(self.repetitions, self.seed, self.phases.value(), self.load_on, taps)


class GuardsPart(Part):
    generator_cpu: Annotated[float, PlainValidator(readers.read_share_percent)] = _ANALYSIS.guards.generator_cpu_percent
    schedule_lag_p99: Annotated[float, PlainValidator(readers.read_lag_ms)] = _ANALYSIS.guards.schedule_lag_p99_ms
    subscriber_cpu: Annotated[float, PlainValidator(readers.read_share_percent)] = (
        _ANALYSIS.guards.subscriber_cpu_percent
    )
    receive_lag_p99: Annotated[float, PlainValidator(readers.read_lag_ms)] = _ANALYSIS.guards.receive_lag_p99_ms
    steal: Annotated[float, PlainValidator(readers.read_share_percent)] = _ANALYSIS.guards.steal_percent
    swap_growth: Annotated[int, PlainValidator(readers.read_guard_bytes)] = _ANALYSIS.guards.swap_growth_bytes
    clock_step: Annotated[float, PlainValidator(readers.read_lag_ms)] = _ANALYSIS.guards.clock_step_ms
    socket_backlog: Annotated[int, PlainValidator(readers.read_guard_bytes)] = _ANALYSIS.guards.socket_backlog_bytes
    throttled: Annotated[float, PlainValidator(readers.read_share_percent)] = _ANALYSIS.guards.throttled_percent
    stalled: Annotated[float, PlainValidator(readers.read_share_percent)] = _ANALYSIS.guards.stalled_percent

    def value(self) -> v.Guards:
        return v.Guards(
            generator_cpu_percent=self.generator_cpu,
            schedule_lag_p99_ms=self.schedule_lag_p99,
            subscriber_cpu_percent=self.subscriber_cpu,
            receive_lag_p99_ms=self.receive_lag_p99,
            steal_percent=self.steal,
            swap_growth_bytes=self.swap_growth,
            clock_step_ms=self.clock_step,
            socket_backlog_bytes=self.socket_backlog,
            throttled_percent=self.throttled,
            stalled_percent=self.stalled,
        )


class AnalysisPart(Part):
    confidence: Annotated[float, PlainValidator(readers.read_confidence_percent)] = _ANALYSIS.confidence_percent
    guards: GuardsPart = GuardsPart()
    late: NeededPhase = _ANALYSIS.late_s

    def value(self) -> v.Analysis:
        return v.Analysis(confidence_percent=self.confidence, guards=self.guards.value(), late_s=self.late)


class PresentPart(Part):
    beside: list[Annotated[str, PlainValidator(readers.read_published)]] = Field(default=[])


class StudyPart(Part):
    """The whole file."""

    brokerlab: Annotated[int, PlainValidator(readers.read_version)]
    study: Annotated[str, PlainValidator(readers.read_study_name)]
    goals: GoalsPart
    system: SystemPart
    metrics: list[Annotated[str, PlainValidator(readers.read_metric)]] = Field(min_length=1)
    scenario: ScenarioPart
    deploy: DeployPart = DeployPart()
    analysis: AnalysisPart = AnalysisPart()
    present: PresentPart = PresentPart()
