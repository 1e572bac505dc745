/** Pages of a collector that has nothing, and things that there are not. */

import type { Browser } from "playwright-core";
import { afterAll, beforeAll, expect, test } from "vitest";
import { given, launch, Watched } from "./browser";

const origin = given("FABRICLENS_EMPTY_URL");
let browser: Browser;
beforeAll(async () => {
  browser = await launch();
});
afterAll(() => browser.close());

test.each([
  ["/", "No agent and no switch has sent a sample yet."],
  ["/incidents", "No incident matches."],
  ["/jobs", "No job matches."],
  ["/fabric", "No cable is known."],
  ["/ports", "No port has sent a sample"],
  ["/explore", "Explore"],
  ["/audit", "Audit of settings"],
  ["/status", "No agent has sent anything in six hours."],
  ["/compare", "Name a job"],
  ["/docs/runbooks/pfc-storm.md", "FabricPfcStorm"],
  ["/docs/verdicts.md", "How it judges"],
])("%s says what is missing", async (path, text) => {
  const watched = await Watched.open(browser, origin);
  await watched.go(path);
  await watched.page.getByText(text).first().waitFor();
  await watched.check(path);
  await watched.close();
});

test.each([
  ["/incidents/17-1", 'there is no incident "17-1"'],
  ["/jobs/4711", "4711"],
  ["/ports/gpu-01/mlx5_0/1", "Its cable is not known."],
  ["/compare?a=4711&b=4703", "4711"],
  ["/docs/runbooks/none.md", "no such page of the documentation"],
])("%s says that it does not exist", async (path, text) => {
  const watched = await Watched.open(browser, origin);
  await watched.go(path);
  await watched.page.getByText(text).first().waitFor();
  await watched.check(path, /status of 404/);
  await watched.close();
});

test("Explore and a port have nothing to draw", async () => {
  const watched = await Watched.open(browser, origin);
  await watched.go("/explore");
  await watched.page.getByRole("textbox", { name: /PromQL/ }).fill("fabric_port_up");
  await watched.page.getByRole("button", { name: "Run", exact: true }).click();
  await watched.page.getByText("none matches at this moment").waitFor();
  expect(await watched.page.locator(".plot canvas").count()).toBe(0);
  await watched.check("a query without an answer");
  await watched.go("/ports/gpu-01/mlx5_0/1");
  await watched.page.getByText("No samples in this time.").first().waitFor();
  await watched.check("a port without samples");
  await watched.close();
});

test("a runbook leads to other pages of the documentation, and to its headings", async () => {
  const watched = await Watched.open(browser, origin);
  await watched.go("/docs/runbooks/README.md");
  await watched.page.getByRole("link", { name: "FabricPfcStorm" }).click();
  await watched.page.getByRole("heading", { name: "FabricPfcStorm" }).waitFor();
  await watched.page.getByRole("link", { name: "All runbooks" }).click();
  await watched.page.getByRole("link", { name: "verdicts.md" }).first().click();
  await watched.page.getByRole("link", { name: "probes", exact: true }).first().click();
  expect(new URL(watched.page.url()).hash).toBe("#paths-and-probes");
  expect(new URL(watched.page.url()).pathname).toBe("/docs/verdicts.md");
  await watched.check("verdicts");
  await watched.close();
});

test("the skip link stays on the page", async () => {
  const watched = await Watched.open(browser, origin);
  await watched.go("/status");
  await watched.page.keyboard.press("Tab");
  await watched.page.keyboard.press("Enter");
  expect(new URL(watched.page.url()).pathname).toBe("/status");
  expect(await watched.page.evaluate(() => document.activeElement?.id)).toBe("main");
  await watched.close();
});

test("a query that came with a link runs only when the reader says so", async () => {
  const watched = await Watched.open(browser, origin);
  const asked = () => watched.requested.filter((path) => path.startsWith("/api/v1/query"));
  await watched.page.goto(`${origin}/?q=vector(42)`);
  await watched.page.getByText("This query came with the link.").waitFor();
  expect(new URL(watched.page.url()).pathname).toBe("/explore");
  expect(asked()).toEqual([]);
  await watched.page.getByRole("button", { name: "Run" }).first().click();
  await watched.page.getByRole("cell", { name: "42", exact: true }).waitFor();
  await watched.check("the answer");
  await watched.page.reload();
  await watched.page.getByRole("cell", { name: "42", exact: true }).waitFor();
  await watched.close();
});

test("a wrong query shows the collector's message", async () => {
  const watched = await Watched.open(browser, origin);
  await watched.go("/explore");
  await watched.page.getByRole("textbox", { name: /PromQL/ }).fill("rate(");
  await watched.page.getByRole("button", { name: "Run", exact: true }).click();
  await watched.page.getByRole("alert").waitFor();
  expect(await watched.page.getByRole("alert").textContent()).toContain("parse error");
  await watched.close();
});

test("the keyboard reaches every page, and colors can be chosen", async () => {
  const watched = await Watched.open(browser, origin, { dark: true });
  await watched.go("/");
  await watched.check("dark");
  await watched.page.keyboard.press("g");
  await watched.page.keyboard.press("s");
  await watched.page.getByRole("heading", { name: "Status" }).waitFor();
  const background = () => watched.page.evaluate(() => getComputedStyle(document.body).backgroundColor);
  const dark = await background();
  await watched.page.getByRole("button", { name: "Colors: auto" }).click();
  await watched.page.getByRole("button", { name: "Colors: dark" }).click();
  await watched.page.getByRole("button", { name: "Colors: light" }).waitFor();
  expect(await background()).not.toBe(dark);
  await watched.check("light in a dark system");
  await watched.close();
});
