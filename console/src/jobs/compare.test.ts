import { expect, test } from "vitest";
import type { Figure, Job, Report, ReportJob } from "../api/types";
import { candidates, differences, parseRun, rails } from "./compare";
import { figureText, lostText } from "./figures";

const S = 1e9;
const figure = (unit: string, ...values: number[]): Figure => ({
  unit,
  parts: values.map((value, n) => ({ grade: n === 0 ? "exclusive" : "shared", value, of: 1 })),
});

function report(changed: { mean?: number; paused?: Figure; seconds?: number; rails?: [string, number][] }): Report {
  const none = (unit: string) => figure(unit);
  const job = { cluster: "", id: "1", run: 1, user: "ann", name: "train", start_ns: 0, end_ns: null, hosts: 2 };
  return {
    job,
    range: { start_ns: 0, end_ns: (changed.seconds ?? 100) * S },
    summary: {
      points: [],
      cost: { at_least: none("s"), at_most: figure("s", 3), at_most_share: figure("1", 0.03), basis: "" },
      cause: { kind: "none", text: "" },
      earlier: [],
    },
    traffic: {
      transmitted: none("By"),
      received: none("By"),
      mean_rate: figure("By/s", changed.mean ?? 1e9),
      peak_rate: none("By/s"),
      rails: (changed.rails ?? []).map(([rail, bytes]) => ({
        rail,
        ports: 2,
        transmitted: figure("By", bytes),
        received: none("By"),
        of_mean: 1,
        paused: none("1"),
      })),
      plot: { title: "", unit: "By/s", start_ns: 0, step_seconds: 1, lines: [] },
      hosts: [],
      straggler: null,
    },
    congestion: {
      paused: changed.paused ?? figure("1", 0),
      pausing: none("1"),
      xmit_wait: none("1"),
      cnp_received: none("{count}"),
      ports: [],
      suffered: [],
      caused: [],
    },
    incidents: [],
    neighbours: [],
    health: { findings: [], link_errors: none("{count}"), discards: none("{count}"), retransmits: none("{count}") },
    collectives: { operations: [], stragglers: [], work_requests: [], bandwidth: null, conclusion: null },
    inside: { gpus: 0, findings: [] },
    transport: { rdma: none("By"), tcp: none("By"), tcp_share: null, red_flag: null },
    peers: { pattern: "ring", text: "", pairs: 0 },
    quality: { measured: 2, missing: [], exclusive_ports: 2, shared_ports: 0, notes: [] },
  };
}

const row = (of: ReturnType<typeof differences>, name: string) => of.find((one) => one.name === name);

test("a difference says which way it goes and whether that is worse", () => {
  const rows = differences(report({ mean: 5e8, seconds: 200 }), report({ paused: figure("1", 0.1) }));
  expect(row(rows, "Rate, mean")).toMatchObject({ a: "4 Gb/s", b: "8 Gb/s", change: "−50 %", verdict: "" });
  expect(row(rows, "Rate of a host, mean")).toMatchObject({ a: "2 Gb/s", b: "4 Gb/s", verdict: "worse" });
  expect(row(rows, "Duration")).toMatchObject({ change: "+100 %", verdict: "worse" });
  expect(row(rows, "Port time paused")).toMatchObject({ a: "0 %", b: "10 %", change: "−100 %", verdict: "better" });
  expect(row(rows, "Lost at most")).toMatchObject({ change: "equal", verdict: "" });
  expect(row(rows, "Retransmitted packets"), "measured in neither").toBeUndefined();
});

test("large differences are said as a factor, and tiny ones are none", () => {
  const rows = differences(report({ mean: 1.0005e9, seconds: 1240 }), report({ seconds: 100 }));
  expect(row(rows, "Duration")).toMatchObject({ change: "12.4 times", verdict: "worse" });
  expect(row(rows, "Rate, mean")?.change).toBe("equal");
  const nothing = differences(report({ paused: figure("1", 0.1) }), report({}));
  expect(row(nothing, "Port time paused")).toMatchObject({ change: "from nothing", verdict: "worse" });
});

test("what one run did not measure is not compared, and noise is no verdict", () => {
  const rows = differences(report({ mean: 1.02e9, paused: figure("1") }), report({}));
  expect(row(rows, "Port time paused")).toMatchObject({ a: "not measured", b: "0 %", change: "", verdict: "" });
  expect(row(rows, "Rate of a host, mean")).toMatchObject({ change: "+2 %", verdict: "" });
});

test("rails of both runs are compared by their rates", () => {
  const rows = rails(report({ rails: [["rail1", 1e11]], seconds: 100 }), report({ rails: [["rail1", 4e11], ["rail2", 1e11]], seconds: 200 }));
  expect(rows.map(({ name, a, b, verdict }) => [name, a, b, verdict])).toEqual([
    ["rail1", "4 Gb/s", "8 Gb/s", "worse"],
    ["rail2", "not measured", "2 Gb/s", ""],
  ]);
});

test("the run before of the same job comes first, then one of the same name", () => {
  const of: ReportJob = { cluster: "", id: "7", run: 2, user: "ann", name: "train", start_ns: 100 * S, end_ns: null, hosts: 2 };
  const job = (id: string, run: number, start: number, changed: Partial<Job> = {}): Job => ({
    cluster: "",
    id,
    run,
    user: "ann",
    name: "train",
    labels: {},
    start_ns: start * S,
    end_ns: null,
    hosts: { a: null, b: null },
    sources: [],
    disagreements: [],
    state: "ended",
    ...changed,
  });
  const jobs = [
    job("7", 2, 100),
    job("9", 1, 200),
    job("5", 1, 90, { name: "other" }),
    job("6", 1, 50),
    job("7", 1, 10),
    job("4", 1, 95, { user: "bob" }),
  ];
  expect(candidates(jobs, of).map(({ id, run }) => `${id}.${run}`)).toEqual(["7.1", "6.1", "5.1", "9.1"]);
});

test("a run is named by its job and its number", () => {
  expect(parseRun("west/4711", "2")).toEqual({ cluster: "west", id: "4711", run: 2 });
  expect(parseRun("4711", null)).toEqual({ cluster: "", id: "4711", run: undefined });
  expect([parseRun("", "1"), parseRun("1", "x")?.run]).toEqual([undefined, undefined]);
});

test("figures say what was not measured and what is shared", () => {
  expect(figureText(figure("By"))).toBe("not measured");
  expect(figureText(figure("By/s", 1e9, 1e9))).toBe("16 Gb/s, shared with other jobs");
  expect(lostText(figure("s"), figure("s", 5))).toBe("at most 5 s");
  expect(lostText(figure("s", 1), figure("s", 5))).toBe("1 s to 5 s");
});
