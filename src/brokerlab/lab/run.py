"""One run: opens what a cell needs, walks the phases, closes everything, writes the run directory.

broker starts, readiness is proved
  (idle) -> connect -> subscribe -> warmup -> measure -> drain -> (wills) -> teardown
                                    |         |          |
                                    start_ns  measure_ns end_ns     of one schedule, fixed before the first message

A search for the capacity has its trials between warmup and measure (trials.py), and measures at the rate it found.
"""

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, replace

from brokerlab.brokers.registry import driver
from brokerlab.errors import RunError
from brokerlab.lab.bridged import payloads_section
from brokerlab.lab.cast import PROBE, besides, cast_of, cast_section, specs_of
from brokerlab.lab.clients import clients_of, clients_section, placement_section
from brokerlab.lab.cores import pin
from brokerlab.lab.counting import CounterWatch, Ours
from brokerlab.lab.description import describe_run
from brokerlab.lab.faults import Faults, all_sent, faults_of
from brokerlab.lab.guards import machine_reasons, meter_reasons, untaken_reasons
from brokerlab.lab.networks import Record, capturing, open_ground
from brokerlab.lab.probes import probes_section
from brokerlab.lab.remote import below_prefix, open_way_in
from brokerlab.lab.sampling import Sampler
from brokerlab.lab.stand import Stand
from brokerlab.lab.starting import Started, start_by_message
from brokerlab.lab.surroundings import Lookout, summarize
from brokerlab.lab.system import System
from brokerlab.lab.table import table_reasons, table_refusals, table_section
from brokerlab.lab.trials import LEAD_NS, Trials, search_reasons, search_section
from brokerlab.lab.verdict import COLLAPSED, Verdict, collapse_reasons, judge, meter_section, read_meter
from brokerlab.lab.watching import Watcher
from brokerlab.lab.wills import WillWatch
from brokerlab.load.crew import Crew
from brokerlab.load.messages import published_bytes
from brokerlab.load.replay import replayed
from brokerlab.load.runner import Runner
from brokerlab.load.spec import Go, Granted, Stopped
from brokerlab.record.directory import RunDirectory
from brokerlab.record.manifest import Manifest
from brokerlab.study.identity import largest_payload_bytes
from brokerlab.study.plan import PlannedRun
from brokerlab.study.replay import measure_s
from brokerlab.study.values import Arrivals, Start, Study

_ANSWER_S = 10.0  # the longest that a broker may take over one CONNACK or SUBACK
_PAUSED_QUIET_NS = 5_000_000_000  # after a pause many brokers have lost something: what else would come has come then
_LOOK_S = 0.1  # how often a waiting lab looks whether broker and workers live


def make_run(
    run: PlannedRun, study: Study, directory: RunDirectory, *, watcher: Watcher, runner: Runner | None = None
) -> Verdict:
    """Makes one run; whatever the broker does ends in a verdict."""
    if (replay := run.cell.workload.payload.replay) is not None:
        replayed(replay)  # before anything starts: it may have changed since the study was read
    run = below_prefix(run)
    directory.path.mkdir(parents=True)
    manifest = Manifest(directory.manifest_path)
    describe_run(manifest, run, study)
    try:
        walk = _Walk(run, study, directory, manifest, watcher)
        walk.runner = runner
        verdict = walk.go()
    except RunError as problem:
        verdict = Verdict(COLLAPSED, (problem.message,))
    manifest.add("verdict", {"value": verdict.value, "reasons": list(verdict.reasons)})
    return verdict


class _Walk:
    """The state of one run while it goes on."""

    def __init__(
        self, run: PlannedRun, study: Study, directory: RunDirectory, manifest: Manifest, watcher: Watcher
    ) -> None:
        self._run, self._study, self._directory = run, study, directory
        self._manifest, self._watcher = manifest, watcher
        self.runner: Runner | None = None  # of the workers; None: processes of this machine
        self._phases: list[dict[str, object]] = []
        self._clients = clients_of(
            run.cell.workload, seed=run.seed, nodes=run.cell.ensemble.nodes, placement_seed=run.placement_seed
        )
        self._trials: Trials | None = None
        self._cast = cast_of(run.cell.workload, self._clients, seed=run.seed)
        self._granted: dict[int, Granted] = {}
        self._started: Started | None = None  # by control messages

    def go(self) -> Verdict:
        try:
            with ExitStack() as stack:
                return self._go(stack)
        finally:
            self._manifest.add("phases", self._phases)
            if self._trials:
                self._manifest.add("search", search_section(self._trials))

    def _go(self, stack: ExitStack) -> Verdict:
        cell, record = self._run.cell, Record(self._manifest, self._directory)
        stand = self._open_ground(stack, record)
        hosts = [place.address for place in stand.brokers]
        access = stack.enter_context(open_way_in(cell, self._clients, hosts=hosts, beside=self._cast.beside))
        if driver(cell.broker.driver).abilities.has_port_per_protocol:
            access = access.speaking(cell.workload.protocol)
        self._manifest.add("access", access.facts)
        if self._clients.placed:
            self._manifest.add("placement", placement_section(self._clients, nodes=cell.ensemble.nodes))
        schedule = faults_of(self._run, self._study)
        self._watcher.phase_started("start", 0)
        self._system = stack.enter_context(
            System(
                cell,
                stand,
                access,
                directory=self._directory,
                manifest=self._manifest,
                faults=schedule,
                hubs=self._clients.hubs(),
            )
        )
        self._doors = self._system.doors()
        access = replace(access, login=next((door.login for door in self._doors if door.login.user), access.login))
        watches = [stack.enter_context(watch) for watch in self._counter_watches()]
        wills = stack.enter_context(WillWatch(cell.workload, door=self._doors[0], run=self._directory))
        site = cell.workload.echo.site
        away = None if site is None else self._ground.clients_at(site)
        specs = access.admitted(
            specs_of(self._run, self._cast, doors=self._doors, folder=self._directory.path, devices_at=away)
        )
        ports = sorted({door.port for door in self._doors})
        taps = self._study.deploy.captures
        captures = stack.enter_context(capturing(self._ground, taps, ports=ports, record=record))
        self._crew = stack.enter_context(Crew(specs, self.runner))
        if self.runner is not None:
            self._manifest.add("workers", self.runner.facts())
        self._cores = pin(self._pids(), broker_cores=cell.limits.cores, is_near=specs[0].is_near)
        self._system.keep_to(self._cores.of_broker)
        self._sampler = stack.enter_context(
            Sampler(
                lambda: self._pids() | self._ground.pids() | captures.pids(),
                self._directory,
                also=self._ground.sample,
            )
        )
        self._lookout = stack.enter_context(Lookout())
        self._faults = Faults(
            schedule, self._system, crew=self._crew, network=self._ground.network, manifest=self._manifest
        )
        stack.callback(self._faults.close)
        self._idle()
        self._connect()
        publications = self._publish()
        if cell.workload.will is not None and publications is not None:
            self._leave(wills)
        self._faults.close()
        counted = [] if self._faults else self._compare_counters(watches, publications, wiped=wills.wiped)
        with self._phase("teardown"):
            stopped = self._crew.stop()
        return self._judge(stopped, counted)

    def _open_ground(self, stack: ExitStack, record: Record) -> Stand:
        cell = self._run.cell
        self._ground = stack.enter_context(
            open_ground(
                cell.topology,
                nodes=cell.ensemble.nodes,
                seed=self._run.seed,
                record=record,
                say=self._watcher.phase_started,
            )
        )
        return self._ground.stand

    # -- the phases -----------------------------------------------------------------------------------------------

    def _idle(self) -> None:
        """Lets the system stand without a client, where the study asks for it (B-12)."""
        if idle_s := self._study.deploy.phases.idle_s:
            start_ns = self._sampler.mark()
            self._timed_phase("idle", start_ns, start_ns + int(idle_s * 1e9))

    def _connect(self) -> None:
        """Connects all clients and subscribes the subscribers, unless they are to come after the messages."""
        with self._phase("connect"):
            self._crew.connect(timeout_s=_ANSWER_S)
            if self._clients.is_replay:
                self._crew.fill(timeout_s=_ANSWER_S)
        if not self._clients.is_replay:
            with self._phase("subscribe"):
                self._crew.fill(timeout_s=_ANSWER_S)
                self._subscribe()

    def _subscribe(self) -> None:
        self._granted = self._crew.subscribe(timeout_s=_ANSWER_S)
        section = clients_section(self._clients, self._granted, self._run.cell.workload)
        self._manifest.add("clients", section | cast_section(self._cast, self._granted, self._crew.devices))

    def _publish(self) -> dict[int, int] | None:
        """Warms up, measures and drains; publications per publisher, None if some were never handed over."""
        if self._run.cell.workload.schedule.arrivals is Arrivals.SEARCH:
            return self._search()
        times = self._study.deploy.phases
        is_remote = self._run.cell.workload.start is Start.CONTROL
        start_ns = time.monotonic_ns() + (0 if is_remote else LEAD_NS)
        measure_ns = start_ns + int(times.warmup_s * 1e9)
        end_ns = measure_ns + int(measure_s(self._run.cell.workload, times) * 1e9)
        self._order = Go(start_ns, measure_ns, end_ns)
        if is_remote:
            self._start_remotely()
        else:
            self._crew.go(self._order)
        order = self._order
        self._faults.begin(order.measure_ns)
        self._wait_until(order.start_ns)
        self._mark(order.start_ns)
        self._timed_phase("warmup", order.start_ns, order.measure_ns)
        self._timed_phase("measure", order.measure_ns, order.end_ns)
        return self._drain()

    def _start_remotely(self) -> None:
        """Has the publishers begin by message; the times of the run are theirs from then on."""
        self._started = start_by_message(self._crew, self._order, self._run.cell.workload, door=self._doors[0])
        self._order = self._started.order

    def _drain(self) -> dict[int, int] | None:
        drain_s = self._study.deploy.phases.drain_s
        drain_ns = self._order.end_ns + int(drain_s * 1e9)
        with self._phase("drain", start_ns=self._order.end_ns, seconds=drain_s):
            publications = all_sent(self._crew, self._order.end_ns, drain_ns, is_planned=bool(self._faults))
            if publications is not None and self._clients.is_replay:
                self._crew.settled(deadline_ns=drain_ns)
            elif publications is not None:
                news = self._trials.news(publications) if self._trials else publications
                self._crew.drain(self._expected(news), deadline_ns=drain_ns, quiet_ns=self._quiet_ns())
                if self._trials:
                    self._trials.made.append(self._trials.judge("measure", self._order, news)[0])
        if publications is not None and self._clients.is_replay:
            self._replay(publications)
        return publications

    def _quiet_ns(self) -> int:
        """After so long without a message no more are waited for; 0: until the end of drain."""
        return _PAUSED_QUIET_NS if self._run.cell.workload.pause is not None or self._faults else 0

    def _search(self) -> dict[int, int] | None:
        """Makes the trials, then measures at the rate that was found."""
        self._trials = Trials(
            self._crew, self._lookout, self._study, self._run.cell.workload, self._expected, self._pass_phase
        )
        self._order = self._trials.order(0, 0)  # of the time before the first trial: nothing is due
        rate_per_s = self._trials.search()
        if rate_per_s is None:
            return None
        self._order = self._trials.order(rate_per_s, self._study.deploy.phases.measure_s)
        self._crew.go(self._order)
        self._pass_phase("measure", self._order)
        return self._drain()

    def _expected(self, publications: Mapping[int, int]) -> dict[str, int]:
        """Deliveries per worker that come of so many publications per publisher."""
        return self._cast.expected(publications)

    def _pass_phase(self, name: str, order: Go) -> None:
        """Lets the whole schedule of an order pass as one phase; of a trial it says the rate."""
        self._wait_until(order.start_ns)
        self._mark(order.start_ns)
        self._timed_phase(name, order.start_ns, order.end_ns)
        self._phases[-1]["rate_per_s"] = order.rate_per_s

    def _replay(self, publications: dict[int, int]) -> None:
        """Subscribes now that the broker has every message, and waits for what it retained."""
        drain_s = self._study.deploy.phases.drain_s
        with self._phase("subscribe", seconds=drain_s):
            self._subscribe()
            deadline_ns = time.monotonic_ns() + int(drain_s * 1e9)
            self._crew.drain(self._expected(publications), deadline_ns=deadline_ns)

    def _leave(self, wills: WillWatch) -> None:
        """Ends the publishers' connections, some of them without a word, and hears their wills."""
        drain_s = self._study.deploy.phases.drain_s
        with self._phase("wills", seconds=drain_s):
            section = wills.collect(self._crew.leave, self._clients.publishers, seed=self._run.seed, patience_s=drain_s)
        self._manifest.add("wills", section)

    def _timed_phase(self, name: str, start_ns: int, end_ns: int) -> None:
        """Lets a phase of the schedule pass; its boundaries are the schedule's, not the moment we noticed them."""
        self._watcher.phase_started(name, (end_ns - start_ns) / 1e9)
        self._wait_until(end_ns)
        self._mark(end_ns)
        self._phases.append({"name": name, "start_ns": start_ns, "end_ns": end_ns})

    def _mark(self, at_ns: int) -> None:
        """A boundary of the schedule."""
        self._sampler.mark(at_ns)
        self._lookout.mark(at_ns)

    @contextmanager
    def _phase(self, name: str, *, start_ns: int | None = None, seconds: float = 0.0) -> Iterator[None]:
        """A phase that lasts as long as its work."""
        self._watcher.phase_started(name, seconds)
        began_ns = start_ns or self._sampler.mark()
        yield
        self._phases.append({"name": name, "start_ns": began_ns, "end_ns": self._sampler.mark()})

    def _wait_until(self, at_ns: int) -> None:
        """Waits for a time of the schedule, and notices when broker or workers do not live to see it."""
        while (remaining_s := (at_ns - time.monotonic_ns()) / 1e9) > 0:
            time.sleep(min(remaining_s, self._faults.pause_s(_LOOK_S)))
            self._faults.tick(time.monotonic_ns())
            self._system.look("the end of the schedule")
            self._ground.require_alive()
            self._crew.check()

    # -- the broker -----------------------------------------------------------------------------------------------

    def _counter_watches(self) -> list[CounterWatch]:
        """One for each node."""
        return [
            CounterWatch(
                broker,
                process.node,
                run=self._directory,
                login=door.login,
                number=door.node,
                namespace=process.namespace,
                is_alone=not self._system.is_several,
            )
            for broker, process, door in zip(self._system.brokers, self._system.processes, self._doors, strict=True)
        ]

    def _compare_counters(
        self, watches: Sequence[CounterWatch], publications: dict[int, int] | None, *, wiped: Sequence[int]
    ) -> list[str]:
        """Reasons why the broker's counts contradict ours; empty when they agree or cannot be compared."""
        if publications is None:
            return []
        workload, probes = self._run.cell.workload, self._cast.probes(publications)
        commands = self._started.messages if self._started else ()
        others = besides(workload, probes=probes, answered=self._crew.answered(), commands=commands, wiped=wiped)
        self._manifest.add("besides", asdict(others))
        load = self._cast.load(publications)
        ours = Ours(
            publications=sum(load.values()) + others.publications,
            payload_bytes=published_bytes(workload, load, seed=self._run.seed) + others.payload_bytes,
            proved=self._system.publications,
            other_qos=others.qos,
        )
        reasons = [reason for watch in watches for reason in watch.compare(workload, ours)]
        self._manifest.add("counting", watches[0].section(workload, ours))
        return reasons

    # -- the end --------------------------------------------------------------------------------------------------

    def _pids(self) -> dict[str, list[int]]:
        return self._system.pids() | {node: [pid] for node, pid in self._crew.pids().items()}

    def _judge(self, stopped: dict[str, Stopped], counted: list[str]) -> Verdict:
        meter = read_meter(stopped)
        inflight = self._run.cell.workload.schedule.inflight
        self._manifest.add("meter", meter_section(meter, stopped, inflight=inflight, division=self._cores))
        if (table := table_section(stopped.values(), self._run.cell.workload.subscriptions)) is not None:
            self._manifest.add("table", table)
        if PROBE in stopped:
            self._manifest.add("probes", probes_section(self._directory, self._order, stopped[PROBE]))
        if self._started:
            self._manifest.add("start_ms", self._started.section(stopped.values()))
        self._system.look("the end of the run")
        self._system.close_book()
        if self._run.cell.ensemble.bridging is not None:
            self._manifest.add("payloads", payloads_section(self._directory))
        order, limits = self._order, self._study.analysis.guards
        around = summarize(
            self._lookout.readings,
            measure_ns=order.measure_ns,
            end_ns=order.end_ns,
            backlogs_bytes=[each.backlog_bytes for each in stopped.values()],
            ranges_uj=self._lookout.ranges_uj,
            since_ns=order.start_ns if self._trials else None,  # what befell a trial is in its outcome
        )
        self._manifest.add("surroundings", asdict(around))
        is_planned = bool(self._faults)  # that connections end, and that something is not sent
        meter = replace(meter, unsent=0, untaken=0) if is_planned else meter
        guards = meter_reasons(meter, limits)
        guards += table_reasons(stopped.values(), limits, is_planned=is_planned)
        guards += machine_reasons(around, limits, payload_bytes=largest_payload_bytes(self._run.cell.workload))
        searched = search_reasons(self._trials) if self._trials else []
        searched += self._faults.missed()
        granted, devices = self._granted, self._crew.devices
        collapsed = collapse_reasons(stopped, granted.values(), devices.values(), is_planned=is_planned)
        collapsed += table_refusals(stopped.values(), is_planned=is_planned)
        collapsed += [killed] if (killed := self._system.obituary()) else []
        (guards or collapsed).extend(untaken_reasons(meter))
        invalid = [*self._ground.reasons, *self._ground.late_reasons(), *searched, *guards, *counted]
        return judge(collapsed, [*invalid, *self._system.reasons()])
