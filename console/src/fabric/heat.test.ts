import { expect, test } from "vitest";
import { Heat, heatColor, heatStep, STEPS } from "./heat";

const SIGNALS = { time: 0, ports: [["h", "1"], ["h", "2"], ["h", "3"]], signals: [{ name: "errors", unit: "1/s", values: [0, null, 4] }] } as const;
const ERRORS = { name: "errors", words: "", help: "" };

test("a port without a value has none, which is not zero", () => {
  const heat = new Heat(SIGNALS, ERRORS);
  expect([heat.at("h", "1"), heat.at("h", "2"), heat.at("x", "1")]).toEqual([0, undefined, undefined]);
  expect(heat.highest(5)).toEqual([{ node: "h", port: "3", value: 4 }]);
});

test("signals without a full value are relative to the highest", () => {
  const heat = new Heat(SIGNALS, ERRORS);
  expect([heat.share(4), heat.share(1), heat.share(undefined)]).toEqual([1, 0.25, 0]);
  expect(new Heat(SIGNALS, { ...ERRORS, full: 8 }).share(4)).toBe(0.5);
});

test("colors differ over the scale and values beyond it have its ends", () => {
  expect(new Set([0, 0.25, 0.5, 0.75, 1].map(heatColor)).size).toBe(5);
  expect([heatStep(-1), heatStep(2)]).toEqual([0, STEPS - 1]);
});
