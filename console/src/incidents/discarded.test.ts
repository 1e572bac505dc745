import { expect, test } from "vitest";
import type { Incident, PortSignals } from "../api/types";
import { besides, considered, pausing } from "./discarded";

const S = 1e9;

function incident(id: string, changed: Partial<Incident> = {}): Incident {
  return {
    id,
    kind: "pfc_storm",
    state: "open",
    start_ns: 100 * S,
    detected_ns: 103 * S,
    end_ns: null,
    severity: "critical",
    confidence: 0.9,
    root: { type: "port", node: "gpu-12", port: "mlx5_2/1" },
    culprit_jobs: [],
    victim_jobs: [],
    victim_ports: [{ type: "port", node: "leaf-3", port: "7" }],
    evidence: [],
    explanation: "It pauses.",
    action: "Drain it.",
    recurrences: 0,
    acknowledged: null,
    reclassified: null,
    silenced: null,
    history: [],
    ...changed,
  };
}

test("causes say whether they were less certain or found less often", () => {
  const of = incident("a", {
    considered: [
      { kind: "incast", root: { type: "fabric" }, confidence: 0.4, found_in: 0.5, explanation: "x" },
      { kind: "slow_receiver", root: { type: "fabric" }, confidence: 0.95, found_in: 0.1, explanation: "y" },
    ],
  });
  expect(considered(of).map(({ what, measure, why }) => [what, measure, why])).toEqual([
    ["Incast", "40 % certain", "less certain than the verdict (90 %); found in 50 % of the evaluations"],
    ["Slow receiver", "95 % certain", "found in only 10 % of the evaluations, the verdict in more"],
  ]);
  expect(considered(incident("a"))).toEqual([]);
});

test("incidents of the same nodes or bound to it are listed with their relation", () => {
  const elsewhere = { root: { type: "host", node: "gpu-90" }, victim_ports: [] } as const;
  const others = [
    incident("a"),
    incident("far", elsewhere),
    incident("part", { ...elsewhere, merged_into: "a", start_ns: 400 * S }),
    incident("seen", { severity: "info", start_ns: 101 * S }),
    incident("own", { start_ns: 130 * S, root: { type: "switch", node: "leaf-3" } }),
  ];
  expect(besides(incident("a"), others).map(({ key, why }) => [key, why])).toEqual([
    ["part", "turned out to be part of this incident"],
    ["seen", "an observation: not certain enough to page, or of no cost to a job"],
    ["own", "an incident of its own, which began 30 s later"],
  ]);
});

test("a port that pauses passes it on, or pauses less than the accused one", () => {
  const signals: PortSignals = {
    time: 0,
    ports: [["gpu-12", "mlx5_2/1"], ["leaf-3", "12"], ["leaf-3", "7"], ["gpu-4", "mlx5_0/1"], ["gpu-5", "mlx5_0/1"]],
    signals: [
      { name: "pause_sent", unit: "1", values: [0.9, 0.3, 0, 0.1, null] },
      { name: "pause_received", unit: "1", values: [0, null, 1.2, 0, 0.2] },
    ],
  };
  expect(pausing(incident("a"), signals).map(({ key, measure, why }) => [key, measure, why])).toEqual([
    ["pause leaf-3 12", "30 % of the time", "its node may not send itself for 100 % of the time: it passes the pause on"],
    ["pause gpu-4 mlx5_0/1", "10 % of the time", "pauses less than the accused port (90 %)"],
  ]);
  const more = { ...signals, signals: [{ name: "pause_sent", unit: "1", values: [0.05, null, null, 0.1, null] }] };
  expect(pausing(incident("a"), more)[0]?.why).toContain("look at it, too");
});
