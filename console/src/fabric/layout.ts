/**
 * Places nodes in levels: hosts below, then switches by their distance from a host. So a leaf-spine fabric has three rows, a fat tree
 * four. The routers of a dragonfly stand in one row, in a block for each group with its hosts below; the cables between them are arcs.
 */

import type { Topology } from "../api/types";
import { groupsOf } from "./groups";

export interface PlacedNode {
  readonly name: string;
  readonly isHost: boolean;
  /** 0 for hosts. */
  readonly level: number;
  /** Center, in units of the drawing: 0 to `width`. */
  readonly x: number;
  /** Width of the node's room. */
  readonly room: number;
  /** Ports with a cable, in their order along the node. */
  readonly ports: readonly string[];
  /** Number of its group; undefined outside a dragonfly. */
  readonly group: number | undefined;
}

/** The block of a group of a dragonfly. */
export interface PlacedGroup {
  readonly name: string;
  /** Center. */
  readonly x: number;
  readonly room: number;
}

/** A cable; its lower end is that of the lower level. */
export interface PlacedLink {
  readonly low: PlacedNode;
  /** Place of its port among those of the node. */
  readonly lowAt: number;
  readonly high: PlacedNode;
  readonly highAt: number;
}

export interface Layout {
  readonly nodes: ReadonlyMap<string, PlacedNode>;
  readonly links: readonly PlacedLink[];
  /** Rows; above those of a dragonfly is room for its arcs, which counts as one. */
  readonly levels: number;
  readonly groups: readonly PlacedGroup[];
}

/** Share of the width that separates the blocks of a dragonfly. */
const BETWEEN = 0.1;

const natural = new Intl.Collator(undefined, { numeric: true });

/** Distance of every node from the nearest host; nodes that no host reaches stand on top. */
function levels(topology: Topology, neighbors: ReadonlyMap<string, readonly string[]>): Map<string, number> {
  const level = new Map<string, number>();
  let front = topology.nodes.filter(({ role }) => role === "host").map(({ name }) => name);
  for (let step = 0; front.length > 0; step += 1) {
    front.forEach((name) => level.set(name, step));
    const next = front.flatMap((name) => neighbors.get(name) ?? []).filter((name) => !level.has(name));
    front = [...new Set(next)];
  }
  const top = Math.max(0, ...level.values());
  for (const { name } of topology.nodes) if (!level.has(name)) level.set(name, top);
  return level;
}

/** A node of a row. */
interface Spot {
  readonly name: string;
  readonly x: number;
  readonly room: number;
}

/** Names at equal distances between two ends. */
function spread(names: readonly string[], from: number, to: number): Spot[] {
  const room = (to - from) / names.length;
  return names.map((name, n) => ({ name, x: from + (n + 0.5) * room, room }));
}

/** Rows of levels, each over the whole width; a node stands above what it is connected with below. */
function inLevels(topology: Topology, neighbors: ReadonlyMap<string, readonly string[]>, width: number): Spot[][] {
  const rows: string[][] = [];
  for (const [name, at] of levels(topology, neighbors)) (rows[at] ??= []).push(name);
  const placed = new Map<string, number>();
  return rows.map((names, at) => {
    const center = (name: string) => {
      const below = (neighbors.get(name) ?? []).map((other) => placed.get(other)).filter((x) => x !== undefined);
      return below.reduce((sum, x) => sum + x, 0) / (below.length || 1);
    };
    // Leaves of one group have the same center, so their names decide.
    const keyed = names.map((name) => ({ name, by: at === 0 ? 0 : Math.round(center(name)) }));
    keyed.sort((a, b) => a.by - b.by || natural.compare(a.name, b.name));
    const row = spread(keyed.map(({ name }) => name), 0, width);
    for (const { name, x } of row) placed.set(name, x);
    return row;
  });
}

/** The blocks of a dragonfly, as wide as their number of hosts wants, with a row of hosts and one of routers. */
function inBlocks(
  topology: Topology,
  neighbors: ReadonlyMap<string, readonly string[]>,
  group: ReadonlyMap<string, number>,
  width: number,
): { rows: Spot[][]; groups: PlacedGroup[] } {
  const routers: string[][] = [];
  for (const [name, at] of group) (routers[at] ??= []).push(name);
  const hosts = routers.map((): { name: string; router: string }[] => []);
  for (const { name } of topology.nodes) {
    if (group.has(name)) continue;
    const own = (neighbors.get(name) ?? []).filter((other) => group.has(other)).sort(natural.compare)[0];
    hosts[group.get(own ?? "") ?? 0]?.push({ name, router: own ?? "" });
  }
  const wants = routers.map((of, at) => Math.max(of.length, hosts[at]?.length ?? 0));
  const whole = wants.reduce((sum, want) => sum + want, 0);
  const gap = (width * BETWEEN) / routers.length;
  const rows: Spot[][] = [[], []];
  const groups: PlacedGroup[] = [];
  let from = gap / 2;
  routers.forEach((of, at) => {
    const room = ((wants[at] ?? 0) / whole) * width * (1 - BETWEEN);
    const below = [...(hosts[at] ?? [])].sort((a, b) => natural.compare(a.router, b.router) || natural.compare(a.name, b.name));
    rows[0]?.push(...spread(below.map(({ name }) => name), from, from + room));
    rows[1]?.push(...spread([...of].sort(natural.compare), from, from + room));
    groups.push({ name: `group ${at + 1}`, x: from + room / 2, room });
    from += room + gap;
  });
  return { rows, groups };
}

/** Lays a topology out over `width`. */
export function layOut(topology: Topology, width: number): Layout {
  const neighbors = new Map<string, string[]>();
  const ports = new Map<string, Set<string>>();
  const add = <Value>(to: Map<string, Value>, name: string, make: () => Value) => to.get(name) ?? (to.set(name, make()), to.get(name));
  for (const { a, a_port, b, b_port } of topology.links) {
    add(neighbors, a, () => [])?.push(b);
    add(neighbors, b, () => [])?.push(a);
    add(ports, a, () => new Set())?.add(a_port);
    add(ports, b, () => new Set())?.add(b_port);
  }
  const group = groupsOf(topology);
  const { rows, groups } = group
    ? inBlocks(topology, neighbors, group, width)
    : { rows: inLevels(topology, neighbors, width), groups: [] };
  const nodes = new Map<string, PlacedNode>();
  rows.forEach((row, level) => {
    for (const { name, x, room } of row) {
      const own = [...(ports.get(name) ?? [])].sort(natural.compare);
      nodes.set(name, { name, isHost: level === 0, level, x, room, ports: own, group: group?.get(name) });
    }
  });
  const places = new Map([...nodes.values()].map(({ name, ports: own }) => [name, new Map(own.map((port, at) => [port, at]))]));
  const links = topology.links.flatMap(({ a, a_port, b, b_port }): PlacedLink[] => {
    const [from, to] = [nodes.get(a), nodes.get(b)];
    if (!from || !to) return [];
    const [fromAt, toAt] = [places.get(a)?.get(a_port) ?? 0, places.get(b)?.get(b_port) ?? 0];
    if (from.level <= to.level) return [{ low: from, lowAt: fromAt, high: to, highAt: toAt }];
    return [{ low: to, lowAt: toAt, high: from, highAt: fromAt }];
  });
  return { nodes, links, levels: rows.length + (group ? 1 : 0), groups };
}
