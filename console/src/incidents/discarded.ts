/**
 * What else was looked at when an incident was judged, and why it is not accused: causes that detectors found for it, other incidents
 * and observations in the same place at the same time, and ports that pause others.
 */

import type { Incident, Location, PortSignals } from "../api/types";
import { nodesOf } from "../chain/layout";
import { duration, kindWords, nsToMs, percent } from "../lib/format";

/** Something that was not accused. */
export interface Discarded {
  readonly key: string;
  /** What it would be. */
  readonly what: string;
  readonly at: Location;
  /** How strong it was, in words. */
  readonly measure: string;
  /** Why it is not accused. */
  readonly why: string;
  /** What a detector said of it. */
  readonly explanation?: string;
  /** Id of the incident that it is, if it is one. */
  readonly incident?: string;
}

/** Rows of each kind. */
const MOST = 8;

/** Causes that detectors found besides the accused one. */
export function considered(incident: Incident): Discarded[] {
  const { confidence } = incident;
  return (incident.considered ?? []).slice(0, MOST).map((one, n) => ({
    key: `cause ${n}`,
    what: kindWords(one.kind),
    at: one.root,
    measure: `${percent(one.confidence)} certain`,
    why:
      one.confidence < confidence
        ? `less certain than the verdict (${percent(confidence)}); found in ${percent(one.found_in)} of the evaluations`
        : `found in only ${percent(one.found_in)} of the evaluations, the verdict in more`,
    explanation: one.explanation,
  }));
}

/** Nodes of an incident: its own, and those that it keeps from sending. */
function scope(incident: Incident): Set<string> {
  return new Set([incident.root, ...incident.victim_ports].flatMap(nodesOf));
}

function why(other: Incident, incident: Incident): string {
  if (other.merged_into === incident.id) return "turned out to be part of this incident";
  if (incident.merged_into === other.id) return "this incident turned out to be part of it";
  if (other.split_from === incident.id) return "was counted as part of this incident until it stood alone";
  if (incident.split_from === other.id) return "this incident was counted as part of it until it stood alone";
  if (other.severity === "info") return "an observation: not certain enough to page, or of no cost to a job";
  const ahead = nsToMs(other.start_ns - incident.start_ns) / 1000;
  const when = Math.abs(ahead) < 1 ? "at the same time" : `${duration(Math.abs(ahead))} ${ahead > 0 ? "later" : "earlier"}`;
  return `an incident of its own, which began ${when}`;
}

/** Other incidents and observations that share a node with it, or that are bound to it; the nearest in time first. */
export function besides(incident: Incident, others: readonly Incident[]): Discarded[] {
  const own = scope(incident);
  const isBound = (other: Incident) =>
    [other.merged_into, other.split_from].includes(incident.id) || [incident.merged_into, incident.split_from].includes(other.id);
  const near = others.filter((other) => other.id !== incident.id && (isBound(other) || [...scope(other)].some((node) => own.has(node))));
  const distance = (other: Incident) => Math.abs(other.start_ns - incident.start_ns);
  near.sort((a, b) => Number(isBound(b)) - Number(isBound(a)) || distance(a) - distance(b));
  return near.slice(0, MOST).map((other) => ({
    key: other.id,
    what: kindWords(other.reclassified?.kind ?? other.kind),
    at: other.root,
    measure: `${percent(other.confidence)} certain`,
    why: why(other, incident),
    explanation: other.explanation,
    incident: other.id,
  }));
}

/** Whether a port is at a location. */
function isAt(at: Location, node: string, port: string): boolean {
  switch (at.type) {
    case "port":
      return at.node === node && at.port === port;
    case "link":
      return (at.a === node && at.a_port === port) || (at.b === node && at.b_port === port);
    case "switch":
    case "host":
      return at.node === node;
    case "job":
    case "fabric":
      return false;
  }
}

/** Ports that paused their neighbor at the time of an incident without being accused, the highest first. `signals` has
 * `pause_sent` and `pause_received`. */
export function pausing(incident: Incident, signals: PortSignals): Discarded[] {
  // A counter of paused time that is read a little late grows by more than the time.
  const column = (name: string) =>
    (signals.signals.find((one) => one.name === name)?.values ?? []).map((value) => (value === null ? null : Math.min(1, value)));
  const [sent, received] = [column("pause_sent"), column("pause_received")];
  // A node passes pause on by other ports than those that are paused.
  const held = new Map<string, number>();
  signals.ports.forEach(([node], n) => held.set(node, Math.max(held.get(node) ?? 0, received[n] ?? 0)));
  const accused = Math.max(0, ...signals.ports.map(([node, port], n) => (isAt(incident.root, node, port) ? (sent[n] ?? 0) : 0)));
  const found = signals.ports.flatMap(([node, port], n) => {
    const share = sent[n] ?? 0;
    return share > 0 && !isAt(incident.root, node, port) ? [{ node, port, share }] : [];
  });
  found.sort((a, b) => b.share - a.share);
  return found.slice(0, MOST).map(({ node, port, share }) => {
    const waits = held.get(node) ?? 0;
    const reason =
      waits > 0
        ? `its node may not send itself for ${percent(waits)} of the time: it passes the pause on`
        : share < accused
          ? `pauses less than the accused port (${percent(accused)})`
          : "pauses more than the accused port and is no part of this verdict: look at it, too";
    return {
      key: `pause ${node} ${port}`,
      what: "Pauses its neighbor",
      at: { type: "port", node, port } as const,
      measure: `${percent(share)} of the time`,
      why: reason,
    };
  });
}
