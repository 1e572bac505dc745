/** Two runs side by side: which one to compare with, and what differs. */

import type { Figure, Job, Report, ReportJob } from "../api/types";
import { inUnit, percent, short } from "../lib/format";
import { total } from "./figures";

/** A run of a job; the last one if `run` is undefined. */
export interface Run {
  readonly cluster: string;
  readonly id: string;
  readonly run: number | undefined;
}

/** A run as two parameters of a URL: `west/4711` and the number of the run. */
export function parseRun(name: string | null, run: string | null): Run | undefined {
  if (!name) return undefined;
  const at = name.indexOf("/");
  const number = Number(run);
  return { cluster: at > 0 ? name.slice(0, at) : "", id: name.slice(at + 1), run: Number.isInteger(number) && number > 0 ? number : undefined };
}

/** A job by the name that incidents use. */
export function nameOf({ cluster, id }: { cluster: string; id: string }): string {
  return cluster ? `${cluster}/${id}` : id;
}

/**
 * Runs that one may be compared with, the best first: earlier runs of the same job, then those of the same name, then those with as
 * many hosts; of equal ones the latest before it.
 */
export function candidates(jobs: readonly Job[], of: ReportJob): Job[] {
  const others = jobs.filter((job) => !(job.cluster === of.cluster && job.id === of.id && job.run === of.run) && job.user === of.user);
  const rank = (job: Job) => {
    const isEarlier = job.start_ns < of.start_ns;
    const isSame = job.cluster === of.cluster && job.id === of.id;
    const isNamed = of.name !== "" && job.name === of.name;
    return (isEarlier ? 8 : 0) + (isSame ? 4 : 0) + (isNamed ? 2 : 0) + (Object.keys(job.hosts).length === of.hosts ? 1 : 0);
  };
  return others.sort((a, b) => rank(b) - rank(a) || Math.abs(a.start_ns - of.start_ns) - Math.abs(b.start_ns - of.start_ns));
}

/** Seconds that a report covers. */
function seconds({ range }: Report): number {
  return (range.end_ns - range.start_ns) / 1e9;
}

/** Mean rate of a measured host, bytes per second. */
function perHost({ traffic, quality }: Report): number | undefined {
  const rate = total(traffic.mean_rate);
  return rate === undefined || quality.measured === 0 ? undefined : rate / quality.measured;
}

/** A quantity of a report. */
interface Quantity {
  readonly name: string;
  readonly unit: string;
  readonly of: (report: Report) => number | undefined;
  /** Which way is worse; undefined: neither. */
  readonly worse?: "more" | "less";
}

const figure = (name: string, unit: string, of: (report: Report) => Figure, worse?: Quantity["worse"]): Quantity => ({
  name,
  unit,
  of: (report) => total(of(report)),
  ...(worse ? { worse } : {}),
});

const QUANTITIES: readonly Quantity[] = [
  { name: "Hosts", unit: "", of: ({ job }) => job.hosts },
  { name: "Duration", unit: "s", of: seconds, worse: "more" },
  figure("Lost at least", "s", ({ summary }) => summary.cost.at_least, "more"),
  figure("Lost at most", "s", ({ summary }) => summary.cost.at_most, "more"),
  figure("Lost at most, share of its time", "1", ({ summary }) => summary.cost.at_most_share, "more"),
  figure("Sent", "By", ({ traffic }) => traffic.transmitted),
  figure("Rate, mean", "By/s", ({ traffic }) => traffic.mean_rate),
  figure("Rate, peak", "By/s", ({ traffic }) => traffic.peak_rate),
  // Runs of different sizes are compared by host.
  { name: "Rate of a host, mean", unit: "By/s", of: (report) => perHost(report), worse: "less" },
  figure("Port time paused", "1", ({ congestion }) => congestion.paused, "more"),
  figure("Port time pausing its switch", "1", ({ congestion }) => congestion.pausing, "more"),
  figure("Waits for credits", "1", ({ congestion }) => congestion.xmit_wait, "more"),
  figure("Congestion notifications", "", ({ congestion }) => congestion.cnp_received, "more"),
  figure("Retransmitted packets", "", ({ health }) => health.retransmits, "more"),
  figure("Link errors", "", ({ health }) => health.link_errors, "more"),
  { name: "TCP, of all bytes", unit: "1", of: ({ transport }) => transport.tcp_share ?? undefined, worse: "more" },
  { name: "Incidents as victim", unit: "", of: ({ incidents }) => incidents.filter(({ role }) => role === "victim").length, worse: "more" },
  { name: "Incidents as culprit", unit: "", of: ({ incidents }) => incidents.filter(({ role }) => role === "culprit").length, worse: "more" },
];

/** A line of the comparison. */
export interface Difference {
  readonly name: string;
  readonly a: string;
  readonly b: string;
  /** How the first run differs from the second, in words; empty where it cannot be said. */
  readonly change: string;
  readonly verdict: "better" | "worse" | "";
}

/** Differences below this share are noise, and those below that none. */
const NOISE = 0.05;
const EQUAL = 0.001;

function difference({ name, unit, of, worse }: Quantity, a: Report, b: Report): Difference | undefined {
  const [x, y] = [of(a), of(b)];
  if (x === undefined && y === undefined) return undefined;
  const text = (value: number | undefined) => (value === undefined ? "not measured" : inUnit(value, unit));
  const row = { name, a: text(x), b: text(y), change: "", verdict: "" as const };
  if (x === undefined || y === undefined) return row;
  const share = y === 0 ? undefined : (x - y) / Math.abs(y);
  if (x === y || Math.abs(share ?? 1) < EQUAL) return { ...row, change: "equal" };
  const change = share === undefined ? "from nothing" : share > 2 ? `${short(x / y)} times` : `${share > 0 ? "+" : "−"}${percent(Math.abs(share))}`;
  const differs = share === undefined || Math.abs(share) > NOISE;
  if (!worse || !differs) return { ...row, change };
  return { ...row, change, verdict: x > y === (worse === "more") ? "worse" : "better" };
}

/** What can be compared of two reports, the first against the second. */
export function differences(a: Report, b: Report): Difference[] {
  return QUANTITIES.map((quantity) => difference(quantity, a, b)).filter((row) => row !== undefined);
}

/** Mean rates of a port of each rail; rails of one run alone are there, too. */
export function rails(a: Report, b: Report): Difference[] {
  const names = [...new Set([...a.traffic.rails, ...b.traffic.rails].map(({ rail }) => rail))];
  const rate = (report: Report, name: string) => {
    const rail = report.traffic.rails.find((one) => one.rail === name);
    const bytes = rail && total(rail.transmitted);
    return bytes === undefined || rail?.ports === 0 || seconds(report) <= 0 ? undefined : bytes / seconds(report) / (rail?.ports ?? 1);
  };
  const rows = names.map((name) => difference({ name, unit: "By/s", of: (report) => rate(report, name), worse: "less" }, a, b));
  return rows.filter((row) => row !== undefined);
}
