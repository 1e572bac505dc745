import { expect, test } from "vitest";
import type { Incident, TopologyLink } from "../api/types";
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

const LINKS = [
  link("gpu-12", "mlx5_2/1", "leaf-1", "swp5"),
  link("gpu-11", "mlx5_2/1", "leaf-1", "swp4"),
  link("leaf-1", "swp9", "spine-0", "Ethernet24"),
];

const port = (node: string, name: string) => ({ type: "port", node, port: name }) as const;

function incident(victims: readonly ReturnType<typeof port>[]): Incident {
  return {
    id: "1-1",
    kind: "pfc_storm",
    state: "open",
    start_ns: 0,
    detected_ns: 0,
    end_ns: null,
    severity: "critical",
    confidence: 0.9,
    root: port("gpu-12", "mlx5_2/1"),
    culprit_jobs: [],
    victim_jobs: ["4713"],
    victim_ports: victims,
    evidence: [],
    explanation: "",
    action: "",
    recurrences: 0,
    acknowledged: null,
    reclassified: null,
    silenced: null,
    history: [],
  };
}

const columns = (victims: readonly ReturnType<typeof port>[], jobs: Parameters<typeof layOut>[2] = []) =>
  Object.fromEntries(layOut(incident(victims), LINKS, jobs).nodes.map(({ name, column }) => [name, column]));

test("pause spreads from the culprit over the cables of the victim ports", () => {
  const victims = [port("spine-0", "Ethernet24"), port("gpu-11", "mlx5_2/1"), port("leaf-1", "swp5")];
  const jobs = [{ job: "4713", hosts: ["gpu-11", "gpu-12"] }];
  expect(columns(victims, jobs)).toEqual({ "gpu-12": 0, "leaf-1": 1, "gpu-11": 2, "spine-0": 2, "job 4713": 3 });
  const { edges } = layOut(incident(victims), LINKS, jobs);
  expect(edges).toContainEqual({ from: "gpu-12", to: "leaf-1", ports: ["swp5"] });
  expect(edges).toContainEqual({ from: "leaf-1", to: "gpu-11", ports: ["mlx5_2/1"] });
  expect(edges).toContainEqual({ from: "gpu-11", to: "job 4713", ports: [] });
});

test("victims without a known way from the culprit are shown, and nothing is invented between", () => {
  const { nodes, edges } = layOut(incident([port("spine-0", "Ethernet24")]), LINKS, []);
  expect(nodes.map(({ name, column, part }) => [name, column, part])).toEqual([
    ["gpu-12", 0, "culprit"],
    ["leaf-1", 1, "pausing"],
    ["spine-0", 2, "paused"],
  ]);
  expect(edges).toEqual([{ from: "leaf-1", to: "spine-0", ports: ["Ethernet24"] }]);
});

test("a loop of waits ends", () => {
  const loop = [link("a", "1", "b", "2"), link("b", "1", "a", "2")];
  const victims = [port("a", "1"), port("b", "1"), port("a", "2"), port("b", "2")];
  expect(layOut(incident(victims), loop, []).nodes).toHaveLength(3);
});

test("a long column is cut and counted", () => {
  const many = Array.from({ length: 20 }, (_, n) => link(`h${n}`, "p", "gpu-12", `x${n}`));
  const victims = many.map(({ a }) => port(a, "p"));
  const { nodes, rows } = layOut(incident(victims), many, []);
  expect(rows).toBe(8);
  expect(nodes.at(-1)?.name).toBe("and 13 more");
});
