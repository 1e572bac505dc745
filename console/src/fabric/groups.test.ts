import { expect, test } from "vitest";
import { cabled, dragonfly } from "./dragonfly.fixture";
import { groupsOf } from "./groups";

/** Whether switches are in one group exactly if their names say so. */
function isRight(groups: ReadonlyMap<string, number> | undefined): boolean {
  const found = new Map<string, Set<number>>();
  for (const [name, group] of groups ?? []) {
    const own = name.split("-")[0] ?? "";
    found.set(own, (found.get(own) ?? new Set()).add(group));
  }
  const numbers = [...found.values()].flatMap((set) => [...set]);
  return numbers.length > 0 && new Set(numbers).size === numbers.length && numbers.length === found.size;
}

test.each([
  [9, 4, 2, 2],
  [5, 4, 1, 2],
  [17, 16, 1, 8],
  [4, 16, 6, 4],
  [33, 8, 4, 8],
  [4, 16, 17, 2],
])("groups of a dragonfly of %i x %i routers", (...of) => {
  expect(isRight(groupsOf(dragonfly(...of)))).toBe(true);
});

test("names may tell nothing of the groups", () => {
  const of = dragonfly(9, 8, 1, 1);
  // Names in an order that mixes the groups: a prime number of steps around all of them.
  const names = of.nodes.map(({ name }) => name).filter((name) => name.startsWith("r"));
  const mixed = new Map(names.map((name, at) => [name, `r${(at * 29) % names.length}`]));
  const renamed = (name: string) => mixed.get(name) ?? name;
  const groups = groupsOf({
    ...of,
    nodes: of.nodes.map(({ name, role }) => ({ name: renamed(name), role })),
    links: of.links.map((link) => ({ ...link, a: renamed(link.a), b: renamed(link.b) })),
  });
  expect(isRight(groups && new Map(names.map((name) => [name, groups.get(renamed(name)) ?? -1])))).toBe(true);
});

test("a router whose cables are not known is a group of its own", () => {
  const of = dragonfly(9, 4, 2, 2);
  const lonely = cabled([["h9", "r9-0"]]);
  expect(isRight(groupsOf({ ...of, nodes: [...of.nodes, ...lonely.nodes], links: [...of.links, ...lonely.links] }))).toBe(true);
});

test("trees, single groups and rings are none", () => {
  const leafSpine = ["h1 l1", "h2 l2", "l1 s1", "l1 s2", "l2 s1", "l2 s2"];
  const mesh = ["h1 a", "h2 b", "h3 c", "h4 d", "a b", "a c", "a d", "b c", "b d", "c d"];
  const ring = Array.from({ length: 12 }, (_, n) => [`h${n} r${n}`, `r${n} r${(n + 1) % 12}`]).flat();
  const pairs = ["h1 a", "h2 b", "h3 c", "h4 d", "a b", "c d"];
  for (const cables of [leafSpine, mesh, ring, pairs, []]) {
    const of = cabled(cables.map((cable) => cable.split(" ") as [string, string]));
    expect(groupsOf(of), cables.join(", ")).toBeUndefined();
  }
});

test.each([
  [8, 4],
  [40, 4],
  [40, 2],
  [200, 8],
])("%i leaves in pairs below %i spines are no dragonfly", (leaves, spines) => {
  const cables = Array.from({ length: leaves }, (_, n) => [
    [`h${n}`, `l${n}`] as const,
    ...(n % 2 === 0 ? [[`l${n}`, `l${n + 1}`] as const] : []),
    ...Array.from({ length: spines }, (_, spine) => [`l${n}`, `s${spine}`] as const),
  ]);
  expect(groupsOf(cabled(cables.flat()))).toBeUndefined();
});

test("a large tree is told from a dragonfly in a moment", () => {
  const leaves = Array.from({ length: 500 }, (_, n) => n);
  const spines = Array.from({ length: 32 }, (_, n) => n);
  const of = cabled(leaves.flatMap((leaf) => [[`h${leaf}`, `l${leaf}`] as const, ...spines.map((spine) => [`l${leaf}`, `s${spine}`] as const)]));
  const began = performance.now();
  expect(groupsOf(of)).toBeUndefined();
  expect(performance.now() - began, "ms").toBeLessThan(2000);
});

test("groups are counted in the order of their names, whatever the order of cables", () => {
  const of = dragonfly(9, 4, 2, 2);
  const forward = groupsOf(of);
  expect([forward?.get("r0-0"), forward?.get("r8-3")]).toEqual([0, 8]);
  expect(groupsOf({ ...of, links: [...of.links].reverse() })).toEqual(forward);
});
