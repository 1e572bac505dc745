import { expect, test } from "vitest";
import type { Topology, TopologyLink } from "../api/types";
import { dragonfly } from "./dragonfly.fixture";
import { layOut } from "./layout";

const link = (a: string, a_port: string, b: string, b_port: string): TopologyLink => ({
  a,
  a_port,
  b,
  b_port,
  known: "lldp",
  rail: null,
  rate_gbps: null,
});

function topology(roles: Record<string, string>, links: readonly TopologyLink[]): Topology {
  const nodes = Object.entries(roles).map(([name, role]) => ({ name, role }));
  return { nodes, links, contradictions: [], since_ns: 0 };
}

test("hosts stand below, switches by their distance from a host", () => {
  const { nodes, levels } = layOut(
    topology({ h2: "host", h1: "host", h10: "host", leaf: "leaf", spine: "spine" }, [
      link("h1", "p", "leaf", "1"),
      link("h2", "p", "leaf", "2"),
      link("h10", "p", "leaf", "10"),
      link("leaf", "11", "spine", "1"),
    ]),
    300,
  );
  expect(levels).toBe(3);
  const at = (name: string) => [nodes.get(name)?.level, nodes.get(name)?.x];
  expect([at("h1"), at("h2"), at("h10")]).toEqual([[0, 50], [0, 150], [0, 250]]);
  expect([at("leaf"), at("spine")]).toEqual([[1, 150], [2, 150]]);
  expect(nodes.get("leaf")?.ports).toEqual(["1", "2", "10", "11"]);
});

test("leaves stand above their hosts", () => {
  const { nodes } = layOut(
    topology({ a: "host", b: "host", z: "leaf", y: "leaf" }, [link("a", "1", "z", "1"), link("b", "1", "y", "1")]),
    100,
  );
  expect((nodes.get("z")?.x ?? 0) < (nodes.get("y")?.x ?? 0)).toBe(true);
});

test("switches without hosts, and nodes that only a cable names, are drawn", () => {
  const { nodes, links } = layOut(topology({ s1: "spine", h: "host" }, [link("h", "1", "gone", "1")]), 100);
  expect([nodes.size, links.length]).toEqual([3, 1]);
  expect(layOut(topology({}, []), 100).levels).toBe(0);
});

test("a dragonfly has a block for each group, with its hosts below its routers", () => {
  const { nodes, groups, levels } = layOut(dragonfly(9, 4, 2, 2), 900);
  expect([groups.length, levels]).toEqual([9, 3]);
  groups.forEach(({ x, room }, at) => {
    const within = (name: string) => Math.abs((nodes.get(name)?.x ?? -1) - x) < room / 2;
    for (const n of [0, 1, 2, 3]) {
      expect([`r${at}-${n}`, `h${at}-${n}-0`, `h${at}-${n}-1`].every(within), `group ${at}`).toBe(true);
      expect(nodes.get(`r${at}-${n}`)).toMatchObject({ level: 1, group: at });
    }
    const next = groups[at + 1];
    if (next) expect(x + room / 2).toBeLessThan(next.x - next.room / 2);
  });
});

test("a dragonfly of 2,000 hosts is laid out in a moment", () => {
  const began = performance.now();
  const { nodes } = layOut(dragonfly(16, 16, 15, 8), 1400);
  expect(nodes.size).toBe(16 * 16 * 9);
  expect(performance.now() - began, "ms").toBeLessThan(2000);
});
