import { expect, test } from "vitest";
import { contextOf, suggest, type Vocabulary } from "./completion";

const KNOWN: Vocabulary = {
  metrics: new Map([
    ["fabric_port_up", "Whether a port is up."],
    ["fabric_pfc_pause_seconds_total", "Time in pause."],
  ]),
  labels: ["host", "device", "port"],
};

test.each([
  ["fab", { kind: "name", word: "fab" }],
  ["sum by (ho", { kind: "label", word: "ho" }],
  ["sum by (host, ", { kind: "label", word: "" }],
  ["fabric_port_up{ho", { kind: "label", word: "ho" }],
  ['fabric_port_up{host="gpu', { kind: "value", label: "host", word: "gpu" }],
  ['fabric_port_up{host=~"a|b', { kind: "value", label: "host", word: "a|b" }],
  ['x{host="a"} * ra', { kind: "name", word: "ra" }],
])("what is typed after %s", (before, wanted) => {
  expect(contextOf(before)).toEqual(wanted);
});

test("nothing is suggested without a word", () => {
  expect(contextOf("rate(")).toBeUndefined();
  expect(contextOf("")).toBeUndefined();
});

test("metrics, functions, labels and values are suggested with their help", () => {
  const texts = (before: string, values: string[] = []) =>
    suggest(contextOf(before) ?? { kind: "name", word: "" }, KNOWN, values).map(({ text }) => text);
  expect(texts("fabric_p")).toEqual(["fabric_pfc_pause_seconds_total", "fabric_port_up"]);
  expect(texts("irat")).toEqual(["irate"]);
  expect(texts("x{po")).toEqual(["port"]);
  expect(texts('x{host="', ["gpu-01", "gpu-02"])).toEqual(["gpu-01", "gpu-02"]);
  expect(suggest({ kind: "name", word: "pause" }, KNOWN, [])[0]?.help).toBe("Time in pause.");
});

test("quotes in values are escaped", () => {
  expect(suggest({ kind: "value", label: "x", word: "" }, KNOWN, ['a"b'])[0]?.insert).toBe('a\\"b');
});
