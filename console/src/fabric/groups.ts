/**
 * Groups of a dragonfly: switches have hosts, any two that are connected within a group have a third of it in common, and most pairs
 * of groups are connected. Other topologies have none.
 */

import type { Topology } from "../api/types";

/** Share of the pairs of groups that cables must connect, at least: some may not be known. */
const PAIRS = 0.75;
/** Rounds in which switches choose their group; they settle in three or four. */
const ROUNDS = 12;

const natural = new Intl.Collator(undefined, { numeric: true });

/** Neighbors of each switch that are switches, and whether nearly all of them have hosts. */
function switches(topology: Topology): { neighbors: Map<string, Set<string>>; haveHosts: boolean } {
  const hosts = new Set(topology.nodes.filter(({ role }) => role === "host").map(({ name }) => name));
  const neighbors = new Map<string, Set<string>>();
  const withHosts = new Set<string>();
  const join = (name: string, other: string) => {
    if (hosts.has(name)) return;
    const known = neighbors.get(name) ?? new Set();
    neighbors.set(name, known);
    if (hosts.has(other)) withHosts.add(name);
    else known.add(other);
  };
  for (const { a, b } of topology.links) {
    join(a, b);
    join(b, a);
  }
  return { neighbors, haveHosts: withHosts.size >= 0.9 * neighbors.size };
}

/**
 * The group of each switch by number, counted in the order of their names; undefined if the topology is no dragonfly.
 *
 * Each switch moves, in turns, to the group that it has more cables to than chance gives (modularity), until none moves.
 */
export function groupsOf(topology: Topology): Map<string, number> | undefined {
  const { neighbors, haveHosts } = switches(topology);
  if (!haveHosts) return undefined;
  const names = [...neighbors.keys()].sort(natural.compare);
  const degree = (name: string) => neighbors.get(name)?.size ?? 0;
  const whole = names.reduce((sum, name) => sum + degree(name), 0);
  if (whole === 0) return undefined;
  const group = new Map(names.map((name, at) => [name, at]));
  const degrees = new Map(names.map((name, at) => [at, degree(name)]));
  for (let round = 0, moved = true; moved && round < ROUNDS; round += 1) {
    moved = false;
    for (const name of names) {
      const from = group.get(name) ?? 0;
      const own = degree(name);
      const toward = new Map<number, number>([[from, 0]]);
      for (const other of neighbors.get(name) ?? []) {
        const at = group.get(other) ?? 0;
        toward.set(at, (toward.get(at) ?? 0) + 1);
      }
      degrees.set(from, (degrees.get(from) ?? 0) - own);
      let [best, most] = [from, -Infinity];
      for (const [at, cables] of toward) {
        const gain = cables - (own * (degrees.get(at) ?? 0)) / whole;
        if (gain > most + 1e-9 || (Math.abs(gain - most) <= 1e-9 && at < best)) [best, most] = [at, gain];
      }
      degrees.set(best, (degrees.get(best) ?? 0) + own);
      group.set(name, best);
      moved ||= best !== from;
    }
  }
  return isDragonfly(names, neighbors, group) ? numbered(names, group) : undefined;
}

function isDragonfly(names: readonly string[], neighbors: ReadonlyMap<string, ReadonlySet<string>>, group: ReadonlyMap<string, number>): boolean {
  const members = new Map<number, string[]>();
  for (const name of names) {
    const own = group.get(name) ?? 0;
    members.set(own, [...(members.get(own) ?? []), name]);
  }
  const pairs = new Set<string>();
  for (const [own, of] of members) {
    for (const name of of) {
      for (const other of neighbors.get(name) ?? []) {
        const at = group.get(other) ?? 0;
        if (own < at) pairs.add(`${own} ${at}`);
        if (own !== at) continue;
        // Two switches of a group have a third one in common; those of a tree, ring or torus do not.
        if (!of.some((third) => neighbors.get(name)?.has(third) && neighbors.get(other)?.has(third))) return false;
      }
    }
  }
  return members.size >= 2 && pairs.size >= (PAIRS * members.size * (members.size - 1)) / 2;
}

function numbered(names: readonly string[], group: ReadonlyMap<string, number>): Map<string, number> {
  const numbers = new Map<number, number>();
  return new Map(
    names.map((name) => {
      const own = group.get(name) ?? 0;
      const number = numbers.get(own) ?? numbers.size;
      numbers.set(own, number);
      return [name, number];
    }),
  );
}
