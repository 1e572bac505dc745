/** Topologies for tests. */

import type { Topology } from "../api/types";

/** A topology of these cables; `h…` are hosts. */
export function cabled(cables: readonly (readonly [string, string])[]): Topology {
  const names = [...new Set(cables.flat())];
  const links = cables.map(([a, b], n) => ({ a, a_port: `p${n}`, b, b_port: `p${n}`, known: "file", rail: null, rate_gbps: null }));
  return {
    nodes: names.map((name) => ({ name, role: name.startsWith("h") ? "host" : "leaf" })),
    links,
    contradictions: [],
    since_ns: 0,
  };
}

/** A dragonfly whose groups have `a` routers, each with `h` cables to other groups and `p` hosts. */
export function dragonfly(groups: number, a: number, h: number, p: number): Topology {
  const router = (group: number, n: number) => `r${group}-${n}`;
  const cables: [string, string][] = [];
  for (let group = 0; group < groups; group += 1) {
    for (let n = 0; n < a; n += 1) {
      for (let host = 0; host < p; host += 1) cables.push([`h${group}-${n}-${host}`, router(group, n)]);
      for (let other = n + 1; other < a; other += 1) cables.push([router(group, n), router(group, other)]);
    }
  }
  // As many cables between each two groups as the routers have, in turns.
  const used = new Array<number>(groups).fill(0);
  const next = (group: number) => router(group, Math.floor(((used[group] = (used[group] ?? 0) + 1) - 1) / h) % a);
  for (let turn = 0; turn < Math.floor((a * h) / (groups - 1)); turn += 1) {
    for (let group = 0; group < groups; group += 1) {
      for (let to = group + 1; to < groups; to += 1) cables.push([next(group), next(to)]);
    }
  }
  return cabled(cables);
}
