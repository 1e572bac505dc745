/**
 * The chain of pause, from the culprit to its victims: who keeps whom from sending. Every victim port is kept by the node at the other
 * end of its cable, so the topology and the list of victim ports are enough.
 */

import type { Incident, Location, TopologyLink } from "../api/types";

export interface ChainNode {
  readonly name: string;
  readonly column: number;
  readonly row: number;
  /** How the node takes part. A node that keeps others from sending, and of which nothing else is known, is `pausing`. */
  readonly part: "culprit" | "paused" | "pausing" | "job" | "more";
}

export interface ChainEdge {
  readonly from: string;
  readonly to: string;
  /** Ports of `to` that are kept from sending; empty for jobs. */
  readonly ports: readonly string[];
}

export interface Chain {
  readonly nodes: readonly ChainNode[];
  readonly edges: readonly ChainEdge[];
  readonly columns: number;
  readonly rows: number;
}

/** Nodes of a column; the rest is counted. */
const ROWS = 8;

interface Victim {
  readonly job: string;
  readonly hosts: readonly string[];
}

/** Nodes of a location. */
export function nodesOf(at: Location): string[] {
  switch (at.type) {
    case "port":
    case "switch":
    case "host":
      return [at.node];
    case "link":
      return [at.a, at.b];
    case "job":
    case "fabric":
      return [];
  }
}

/** Name of a port in the maps of this file. */
const key = (node: string, port: string) => `${node}\n${port}`;

/** The node at the other end of each port's cable. */
function peers(links: readonly TopologyLink[]): Map<string, string> {
  return new Map(
    links.flatMap((link) => [
      [key(link.a, link.a_port), link.b],
      [key(link.b, link.b_port), link.a],
    ]),
  );
}

/** Who keeps whom from sending, and at which ports. */
function relations(incident: Incident, links: readonly TopologyLink[]): Map<string, Map<string, string[]>> {
  const peer = peers(links);
  const held = new Map<string, Map<string, string[]>>();
  for (const at of incident.victim_ports) {
    if (at.type !== "port") continue;
    const by = peer.get(key(at.node, at.port));
    if (by === undefined) continue;
    const of = held.get(by) ?? new Map<string, string[]>();
    of.set(at.node, [...(of.get(at.node) ?? []), at.port]);
    held.set(by, of);
  }
  return held;
}

/** Number of steps from the culprit to each node. Nodes that no known step reaches begin at 1. */
function distances(roots: readonly string[], held: ReturnType<typeof relations>): Map<string, number> {
  const steps = new Map<string, number>();
  const spread = (from: readonly string[], first: number) => {
    let front = from.filter((node) => !steps.has(node));
    for (let step = first; front.length > 0; step += 1) {
      front.forEach((node) => steps.set(node, step));
      const next = front.flatMap((node) => [...(held.get(node)?.keys() ?? [])]);
      front = [...new Set(next)].filter((node) => !steps.has(node));
    }
  };
  spread(roots, 0);
  const paused = new Set([...held.values()].flatMap((of) => [...of.keys()]));
  // Those that nobody else of the rest keeps come first.
  spread([...held.keys()].filter((node) => !paused.has(node)), 1);
  spread([...held.keys()], 1);
  return steps;
}

/** Lays the chain out in columns by distance from the culprit; the jobs that suffer stand last. */
export function layOut(incident: Incident, links: readonly TopologyLink[], victims: readonly Victim[]): Chain {
  const roots = nodesOf(incident.root);
  const held = relations(incident, links);
  const steps = distances(roots, held);
  const jobColumn = Math.max(0, ...steps.values()) + 1;
  const paused = new Set([...held.values()].flatMap((of) => [...of.keys()]));
  const columns: string[][] = [];
  for (const [name, step] of steps) (columns[step] ??= []).push(name);
  const nodes: ChainNode[] = [];
  const shown = new Set<string>();
  columns.forEach((names, column) => {
    names.sort((a, b) => a.localeCompare(b, undefined, { numeric: true }));
    const fits = names.length <= ROWS ? names : names.slice(0, ROWS - 1);
    fits.forEach((name, row) => {
      shown.add(name);
      const part = roots.includes(name) ? "culprit" : paused.has(name) ? "paused" : "pausing";
      nodes.push({ name, column, row, part });
    });
    const left = names.length - fits.length;
    if (left > 0) nodes.push({ name: `and ${left} more`, column, row: fits.length, part: "more" });
  });
  const edges: ChainEdge[] = [];
  for (const [from, of] of held) {
    for (const [to, ports] of of) if (shown.has(from) && shown.has(to)) edges.push({ from, to, ports });
  }
  victims.slice(0, ROWS).forEach(({ job, hosts }, row) => {
    const name = `job ${job}`;
    nodes.push({ name, column: jobColumn, row, part: "job" });
    const own = new Set(hosts);
    for (const node of shown) if (own.has(node)) edges.push({ from: node, to: name, ports: [] });
  });
  const last = Math.max(0, ...nodes.map(({ column }) => column));
  return { nodes, edges, columns: last + 1, rows: Math.max(0, ...nodes.map(({ row }) => row)) + 1 };
}
