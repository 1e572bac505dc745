import { expect, test } from "vitest";
import { bitRate, duration, inUnit, kindWords, percent, short } from "./format";

test("numbers have three digits and a prefix", () => {
  expect([0, 0.05, 7, 12.34, 999.4, 999.6, 1234, 5e10].map(short)).toEqual(["0", "0.05", "7", "12.3", "999", "1.00 k", "1.23 k", "50 G"]);
  expect(short(Number.NaN)).toBe("–");
});

test("bytes per second are bits per second", () => {
  expect([bitRate(49e9), bitRate(0), bitRate(10)]).toEqual(["392 Gb/s", "0 b/s", "80 b/s"]);
});

test("shares are percentages", () => {
  expect([0, 0.0123, 0.097, 0.5, 1.02].map(percent)).toEqual(["0 %", "1.23 %", "9.70 %", "50 %", "102 %"]);
});

test("durations have two units at most", () => {
  expect([0.25, 12.4, 59.6, 200, 7500, 90_000].map(duration)).toEqual([
    "250 ms",
    "12 s",
    "1 min",
    "3 min 20 s",
    "2 h 5 min",
    "1 d 1 h",
  ]);
});

test("values have the unit of their metric", () => {
  expect([inUnit(0.3, "1"), inUnit(12, "1/s"), inUnit(250_000, "By"), inUnit(45, "°C")]).toEqual([
    "30 %",
    "12/s",
    "250 kB",
    "45 °C",
  ]);
});

test("kinds are words", () => {
  expect(["pfc_storm", "ecmp_collision", "pcie_bottleneck", "not_a_problem"].map(kindWords)).toEqual([
    "PFC storm",
    "ECMP collision",
    "PCIe bottleneck",
    "Not a problem",
  ]);
});
