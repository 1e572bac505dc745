/** Answers of the collector's HTTP API, as far as the console reads them (docs/incidents.md, docs/jobs.md, docs/console.md). */

export interface Envelope<T> {
  readonly status: "success";
  readonly data: T;
  readonly warnings?: readonly string[];
  readonly infos?: readonly string[];
}

export interface Session {
  readonly authentication: boolean;
  readonly caller: string | null;
  readonly may: readonly ("read" | "write" | "admin")[];
  readonly version: string;
}

export type Location =
  | { readonly type: "port"; readonly node: string; readonly port: string }
  | { readonly type: "link"; readonly a: string; readonly a_port: string; readonly b: string; readonly b_port: string }
  | { readonly type: "switch" | "host"; readonly node: string }
  | { readonly type: "job"; readonly job: string }
  | { readonly type: "fabric" };

export type Severity = "critical" | "warning" | "info";

export const KINDS = [
  "pfc_storm",
  "slow_receiver",
  "incast",
  "degraded_link",
  "lossy_link",
  "link_flap",
  "link_down",
  "uplink_congestion",
  "ecmp_collision",
  "ecn_misconfigured",
  "noisy_neighbour",
  "fabric_congestion",
  "transport_errors",
  "pcie_bottleneck",
  "optics_degraded",
  "straggler_rail",
  "tcp_fallback",
  "credit_stall",
  "busy_host",
  "stuck_collective",
  "application_straggler",
] as const;
export type Kind = (typeof KINDS)[number];

export interface Evidence {
  readonly metric: string;
  readonly at: string;
  readonly value: number;
  readonly threshold: number;
  readonly window_ns: readonly [number, number];
}

export interface OperatorNote {
  readonly at_ns: number;
  readonly by: string;
  readonly note: string;
}

export interface Silence extends OperatorNote {
  readonly id: string;
  readonly until_ns: number;
}

export type PortLocation = Extract<Location, { type: "port" }>;

/** A cause that detectors found for an incident, and that it does not accuse. */
export interface Considered {
  readonly kind: Kind;
  readonly root: Location;
  readonly confidence: number;
  /** Share of the incident's evaluations that found it. */
  readonly found_in: number;
  readonly explanation: string;
}

export interface Incident {
  readonly id: string;
  readonly kind: Kind;
  readonly state: "open" | "ended";
  readonly start_ns: number;
  readonly detected_ns: number;
  readonly end_ns: number | null;
  readonly merged_into?: string;
  readonly split_from?: string;
  readonly found_late?: boolean;
  readonly severity: Severity;
  readonly confidence: number;
  readonly root: Location;
  readonly priorities?: readonly number[];
  readonly culprit_jobs: readonly string[];
  readonly victim_jobs: readonly string[];
  readonly low_before?: Readonly<Record<string, number>>;
  readonly victim_ports: readonly Location[];
  readonly senders?: readonly (PortLocation & { readonly job?: string })[];
  readonly path?: { readonly ports: readonly Location[]; readonly known: string };
  readonly considered?: readonly Considered[];
  readonly evidence: readonly Evidence[];
  /** Settings of its place that are not as expected, the latest change first. `changed` is its time, Unix ms, and the value before. */
  readonly settings?: readonly {
    readonly node: string;
    readonly port: string;
    readonly title: string;
    readonly value: string;
    readonly expected: string;
    readonly changed?: readonly [number, string];
  }[];
  /** Faults that the kernel log of its place named shortly before or meanwhile, those that may be the reason first. */
  readonly kernel_log?: readonly {
    readonly node: string;
    readonly device?: string;
    readonly pci_address?: string;
    readonly class: string;
    readonly title: string;
    readonly code?: string;
    readonly job?: string;
    readonly at_ms: number;
    readonly may_be_reason: boolean;
  }[];
  readonly explanation: string;
  readonly action: string;
  /** Page of the documentation that says what to do, below `docs/`. */
  readonly docs?: string;
  readonly recurrences: number;
  readonly recurrence_of?: string;
  readonly acknowledged: OperatorNote | null;
  readonly reclassified: (OperatorNote & { readonly kind: Kind | "not_a_problem" }) | null;
  readonly silenced: Silence | null;
  readonly history: readonly { readonly at_ns: number; readonly state: string; readonly detail?: string }[];
}

export interface IncidentList {
  readonly total: number;
  readonly incidents: readonly Incident[];
}

/** Series of the evidence of an incident: matrices of `query_range`. */
export interface EvidenceSeries {
  readonly metric: string;
  readonly query: string;
  readonly resultType: "matrix";
  readonly result: readonly MatrixSeries[];
}

export interface IncidentAnswer {
  readonly incident: Incident;
  readonly window?: { readonly start_ms: number; readonly end_ms: number; readonly step_ms: number };
  readonly series?: readonly EvidenceSeries[];
  readonly warnings?: readonly string[];
}

export type Labels = Readonly<Record<string, string>>;
export type Point = readonly [number, string];
/** Numbers, histograms or both. */
export interface MatrixSeries {
  readonly metric: Labels;
  readonly values?: readonly Point[];
  readonly histograms?: readonly HistogramPoint[];
}
/** A native histogram. */
export interface NativeHistogram {
  readonly count: string;
  readonly sum: string;
}
export type HistogramPoint = readonly [number, NativeHistogram];
/** A number or a histogram. */
export interface VectorSample {
  readonly metric: Labels;
  readonly value?: Point;
  readonly histogram?: HistogramPoint;
}
export type QueryData =
  | { readonly resultType: "vector"; readonly result: readonly VectorSample[] }
  | { readonly resultType: "matrix"; readonly result: readonly MatrixSeries[] }
  | { readonly resultType: "scalar" | "string"; readonly result: Point };

export interface Job {
  readonly cluster: string;
  readonly id: string;
  readonly run: number;
  readonly user: string;
  readonly name: string;
  readonly labels: Labels;
  readonly start_ns: number;
  readonly end_ns: number | null;
  readonly hosts: Readonly<Record<string, unknown>>;
  readonly sources: readonly string[];
  readonly disagreements: readonly string[];
  readonly state: "running" | "ended";
}

export interface TopologyLink {
  readonly a: string;
  readonly a_port: string;
  readonly b: string;
  readonly b_port: string;
  readonly known: string;
  readonly rail: string | null;
  readonly rate_gbps: number | null;
}

export interface Topology {
  readonly nodes: readonly { readonly name: string; readonly role: "host" | "leaf" | "spine" | "core" | string }[];
  readonly links: readonly TopologyLink[];
  readonly contradictions: readonly { readonly message: string }[];
  readonly since_ns: number;
}

export interface SignalColumn {
  readonly name: string;
  readonly unit: string;
  readonly values: readonly (number | null)[];
}

/** Signals of ports at an instant, as columns. */
export interface PortSignals {
  readonly time: number;
  readonly ports: readonly (readonly [string, string])[];
  readonly signals: readonly SignalColumn[];
}

export interface BriefIncident {
  readonly id: string;
  readonly kind: Kind | "not_a_problem";
  readonly severity: Severity;
  readonly confidence: number;
  readonly start_ns: number;
  readonly root: Location;
  readonly explanation: string;
  readonly action: string;
  readonly victim_jobs: readonly string[];
  readonly culprit_jobs: readonly string[];
  readonly acknowledged: boolean;
  readonly silenced: boolean;
}

export interface SufferingJob {
  readonly cluster: string;
  readonly id: string;
  readonly name: string;
  readonly user: string;
  readonly hosts: number;
  readonly measured_hosts: number;
  readonly incidents: readonly string[];
  readonly since_ms: number;
  readonly bytes_per_second: number | null;
  readonly bytes_per_second_before: number | null;
}

export interface HottestPorts {
  readonly name: string;
  readonly unit: string;
  readonly ports: readonly { readonly node: string; readonly port: string; readonly value: number }[];
}

export interface Overview {
  readonly incidents: {
    readonly critical: number;
    readonly warning: number;
    readonly info: number;
    readonly list: readonly BriefIncident[];
  };
  readonly switches: { readonly known: number; readonly silent: number; readonly names: readonly string[] };
  readonly remarks: readonly string[];
  readonly measured: {
    readonly time: number;
    readonly hosts: {
      readonly reporting: number;
      readonly silent: number;
      readonly names: readonly { readonly host: string; readonly silent_s: number }[];
    };
    readonly ports: {
      readonly known: number;
      readonly up: { readonly up: number; readonly of: number };
      readonly hottest: readonly HottestPorts[];
    };
    readonly suffering: readonly SufferingJob[];
    readonly warnings: readonly string[];
  };
}

export interface SwitchSource {
  readonly switch: string;
  readonly source: string;
  readonly last_ms: number;
  readonly silent: boolean;
  readonly streams: readonly { readonly stream: string; readonly failed: string | null }[];
  readonly unknown: readonly { readonly name: string }[];
}

export interface MetricHelp {
  readonly type: string;
  readonly help: string;
  readonly unit: string;
}

/** A figure of a report: parts by how certain they belong to the job. */
export interface Figure {
  readonly unit: string;
  readonly parts: readonly { readonly grade: string; readonly value: number; readonly of: number }[];
}

export interface ReportPlot {
  readonly title: string;
  readonly unit: string;
  readonly start_ns: number;
  readonly step_seconds: number;
  readonly lines: readonly { readonly name: string; readonly points: readonly (number | null)[] }[];
}

/** A rank that held others back, and what the ports of its host counted at that time. */
/** A queue pair whose work requests were slow or failed, by the job's log. */
export interface WorkRequest {
  readonly kind: "failed" | "slow";
  /** Ports, or what is known of them; `to` may be empty. */
  readonly from: string;
  readonly to: string;
  readonly local: string;
  readonly network: "clean" | "troubled" | "like_others" | "unknown";
  readonly text: string;
}

export interface RankStraggler {
  readonly host: string;
  readonly rank: string;
  readonly start_ns: number;
  readonly seconds: number;
  readonly network: "clean" | "troubled" | "like_others" | "unknown";
  readonly text: string;
}

/** Operations of one kind and class of message size. */
export interface ReportOperation {
  readonly operation: string;
  readonly size: string;
  readonly executions: number;
  readonly mean_seconds: number;
  readonly share: number;
  readonly bandwidth: number | null;
  readonly wait_seconds: number | null;
}

/** A problem of a link, of PCIe, of a GPU or of a setting. */
export interface ReportFinding {
  readonly severity: string;
  readonly place: string;
  readonly text: string;
  readonly action: string;
}

/** A job as its report names it. */
export interface ReportJob {
  readonly cluster: string;
  readonly id: string;
  readonly run: number;
  readonly user: string;
  readonly name: string;
  readonly start_ns: number;
  readonly end_ns: number | null;
  readonly hosts: number;
}

export interface ReportRail {
  readonly rail: string;
  readonly ports: number;
  readonly transmitted: Figure;
  readonly received: Figure;
  readonly of_mean: number | null;
  readonly paused: Figure;
}

export interface ReportHost {
  readonly host: string;
  readonly measured: boolean;
  readonly transmitted: Figure;
  readonly received: Figure;
  readonly paused: Figure;
  readonly pausing: Figure;
  readonly cnp_sent: Figure;
  readonly link_errors: Figure;
}

/** An earlier job of the same user with as many hosts. */
export interface EarlierJob {
  readonly id: string;
  readonly run: number;
  readonly name: string;
  readonly seconds: number;
  readonly transmitted: Figure;
  readonly paused: Figure;
  readonly at_most_share: Figure;
}

export interface Report {
  readonly job: ReportJob;
  readonly range: { readonly start_ns: number; readonly end_ns: number };
  readonly summary: {
    readonly points: readonly { readonly severity: string; readonly text: string }[];
    readonly cost: {
      readonly at_least: Figure;
      readonly at_most: Figure;
      readonly at_most_share: Figure;
      readonly basis: string;
    };
    readonly cause: { readonly kind: string; readonly text: string };
    readonly earlier: readonly EarlierJob[];
  };
  readonly traffic: {
    readonly transmitted: Figure;
    readonly received: Figure;
    readonly mean_rate: Figure;
    readonly peak_rate: Figure;
    readonly rails: readonly ReportRail[];
    readonly plot: ReportPlot;
    readonly hosts: readonly ReportHost[];
    readonly straggler: { readonly host: string; readonly device: string | null; readonly text: string } | null;
  };
  readonly congestion: {
    readonly paused: Figure;
    readonly pausing: Figure;
    readonly xmit_wait: Figure;
    readonly cnp_received: Figure;
    readonly ports: readonly {
      readonly host: string;
      readonly device: string;
      readonly paused: number | null;
      readonly pausing: number | null;
    }[];
    readonly suffered: readonly ReportPlot[];
    readonly caused: readonly ReportPlot[];
  };
  readonly incidents: readonly {
    readonly id: string;
    readonly kind: string;
    readonly severity: Severity;
    readonly start_ns: number;
    readonly role: "culprit" | "victim" | "bystander";
  }[];
  readonly neighbours: readonly {
    readonly cluster: string;
    readonly id: string;
    readonly user: string;
    readonly name: string;
    readonly shares: "devices" | "hosts" | "leaf";
    readonly hosts: number;
    readonly seconds: number;
  }[];
  readonly health: {
    readonly findings: readonly ReportFinding[];
    readonly link_errors: Figure;
    readonly discards: Figure;
    readonly retransmits: Figure;
  };
  /** What the communication library reports; empty if no agent read it. */
  readonly collectives: {
    readonly operations: readonly ReportOperation[];
    readonly stragglers: readonly RankStraggler[];
    readonly work_requests: readonly WorkRequest[];
    readonly bandwidth: { readonly plot: ReportPlot } | null;
    readonly conclusion: { readonly agree: boolean | null; readonly text: string } | null;
  };
  /** GPUs and their ways to the network; no GPUs if no agent reads them. */
  readonly inside: { readonly gpus: number; readonly findings: readonly ReportFinding[] };
  readonly transport: {
    readonly rdma: Figure;
    readonly tcp: Figure;
    readonly tcp_share: number | null;
    readonly red_flag: string | null;
  };
  readonly peers: { readonly pattern: string; readonly text: string; readonly pairs: number };
  readonly quality: {
    readonly measured: number;
    readonly missing: readonly string[];
    readonly exclusive_ports: number;
    readonly shared_ports: number;
    readonly notes: readonly string[];
  };
}
