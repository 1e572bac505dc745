/** Speed of the console with a large fleet: first paint of each page, time of an interaction, and what open consoles cost the collector. */

import { readFileSync } from "node:fs";
import type { Browser, Page } from "playwright-core";
import { afterAll, beforeAll, expect, test } from "vitest";
import { given, launch } from "../browser/browser";
import { INTERACTIONS, PAGES } from "./table";

const origin = given("FABRICLENS_URL").replace(/\/$/, "");
/** Process of the collector. */
const collector = given("FABRICLENS_PID");
/** Times that a page is opened and that an interaction is made; the median counts. */
const TIMES = 5;
/** Consoles that are open at once. */
const CONSOLES = 10;
/** Time over which the collector's processor time is measured, ms. */
const SPAN = 30_000;
/** Clock ticks per second in `/proc`. */
const TICKS = 100;
/** Goals, ms. */
const PAINT = 1000;
const ANSWER = 100;

let browser: Browser;
beforeAll(async () => {
  browser = await launch();
});
afterAll(() => browser.close());

async function open(path: string): Promise<Page> {
  // A context of its own: nothing is in a cache.
  const context = await browser.newContext({ viewport: { width: 1400, height: 900 } });
  const page = await context.newPage();
  await page.goto(origin + path);
  await loaded(page);
  return page;
}

/** Waits until everything that a page reads at first is there. */
async function loaded(page: Page): Promise<void> {
  await page.locator("main h1, main .note.bad").first().waitFor();
  await page.locator("main").getByText("Loading…").first().waitFor({ state: "detached" });
}

/** Time of the first paint with content since the navigation began, ms. */
function firstPaint(page: Page): Promise<number> {
  return page.evaluate(() => performance.getEntriesByName("first-contentful-paint")[0]?.startTime ?? Number.NaN);
}

function median(of: readonly number[]): number {
  return [...of].sort((a, b) => a - b)[Math.floor(of.length / 2)] ?? Number.NaN;
}

function line(name: string, ...figures: string[]): void {
  console.log(name.padEnd(46) + figures.map((figure) => figure.padStart(14)).join(""));
}

function verdict(reached: boolean): string {
  return reached ? "reached" : "MISSED";
}

test("pages", async () => {
  line("page, opened with an empty cache", "first paint", "all is there", `< ${PAINT} ms`);
  for (const { name, path } of PAGES) {
    const paints: number[] = [];
    const whole: number[] = [];
    for (let n = 0; n < TIMES; n += 1) {
      const page = await open(path);
      whole.push(await page.evaluate(() => performance.now()));
      paints.push(await firstPaint(page));
      await page.context().close();
    }
    line(name, `${median(paints).toFixed(0)} ms`, `${median(whole).toFixed(0)} ms`, verdict(median(paints) < PAINT));
    expect(median(paints), name).toBeGreaterThan(0);
  }
});

test("interactions", async () => {
  line("interaction, until the next paint", "median", "longest", `< ${ANSWER} ms`);
  for (const { name, path, act } of INTERACTIONS) {
    const page = await open(path);
    // An event's duration ends with the paint that follows it.
    await page.evaluate(() => {
      const longest = { of: 0 };
      Object.assign(window, { longest });
      const observer = new PerformanceObserver((list) => {
        for (const entry of list.getEntries()) longest.of = Math.max(longest.of, entry.duration);
      });
      observer.observe({ type: "event", durationThreshold: 16 } as PerformanceObserverInit);
    });
    const times: number[] = [];
    for (let n = 0; n < TIMES; n += 1) {
      await page.evaluate(() => ((window as unknown as { longest: { of: number } }).longest.of = 0));
      await act(page, n);
      await page.waitForTimeout(400);
      times.push(await page.evaluate(() => (window as unknown as { longest: { of: number } }).longest.of));
    }
    line(name, `${median(times).toFixed(0)} ms`, `${Math.max(...times).toFixed(0)} ms`, verdict(median(times) < ANSWER));
    await page.context().close();
  }
});

/** Share of a core that the collector takes in the next time. */
async function cores(): Promise<number> {
  const ticks = () => {
    const fields = readFileSync(`/proc/${collector}/stat`, "utf8").replace(/^.*\) /, "").split(" ");
    return Number(fields[11]) + Number(fields[12]);
  };
  const [before, began] = [ticks(), performance.now()];
  await new Promise((done) => setTimeout(done, SPAN));
  return ((ticks() - before) / TICKS / (performance.now() - began)) * 1000;
}

test("open consoles", async () => {
  const none = await cores();
  line(`collector, ${CONSOLES} consoles open`, "none open", "open", "for each");
  for (const { name, path } of PAGES.filter(({ isRefreshed }) => isRefreshed)) {
    const pages = await Promise.all(Array.from({ length: CONSOLES }, () => open(path)));
    const some = await cores();
    await Promise.all(pages.map((page) => page.context().close()));
    const percent = (share: number) => `${(share * 100).toFixed(1)} %`;
    line(`${name}, share of a core`, percent(none), percent(some), percent((some - none) / CONSOLES));
  }
});
