/** A browser whose pages are watched: errors of the console, requests to elsewhere, violations of accessibility. */

import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { chromium, type Browser, type Page } from "playwright-core";
import { expect } from "vitest";

/** Value of a variable that `cargo xtask console --browser` sets. */
export function given(name: string): string {
  const value = process.env[name];
  if (!value) throw new Error(`${name} is not set; run cargo xtask console --browser`);
  return value;
}

/** Starts Debian's chromium. */
export function launch(): Promise<Browser> {
  const quiet = ["--disable-background-networking", "--disable-component-update", "--disable-sync", "--no-first-run"];
  return chromium.launch({
    executablePath: process.env["CHROMIUM"] ?? "/usr/bin/chromium",
    args: ["--no-sandbox", "--disable-gpu", ...quiet],
  });
}

const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

/** A page of one collector. */
export class Watched {
  private readonly complaints: string[] = [];
  /** Paths that were requested. */
  readonly requested: string[] = [];

  private constructor(
    readonly page: Page,
    private readonly origin: string,
  ) {
    page.on("console", (message) => {
      if (message.type() === "error") this.complaints.push(`console: ${message.text()}`);
    });
    page.on("pageerror", (error) => this.complaints.push(`error: ${error.message}`));
    page.on("request", (request) => {
      const url = new URL(request.url());
      this.requested.push(url.pathname + url.search);
      if (url.origin !== this.origin && url.protocol !== "data:") this.complaints.push(`request to ${request.url()}`);
    });
  }

  static async open(browser: Browser, origin: string, options: { dark?: boolean } = {}): Promise<Watched> {
    const page = await browser.newPage({ viewport: { width: 1400, height: 900 }, colorScheme: options.dark ? "dark" : "light" });
    return new Watched(page, origin.replace(/\/$/, ""));
  }

  /** Opens a path and waits for its heading. */
  async go(path: string): Promise<void> {
    await this.page.goto(this.origin + path);
    await this.page.locator("main h1, main .note.bad").first().waitFor();
    // Everything that the page reads at first is there.
    await this.page.locator("main").getByText("Loading…").first().waitFor({ state: "detached" });
  }

  /** Fails if something was complained of since the last call, except what is expected, or if axe-core finds a violation. */
  async check(what: string, expected?: RegExp): Promise<void> {
    await this.page.evaluate(axe);
    const violations = await this.page.evaluate(async () => {
      const { axe: tool } = window as unknown as { axe: { run: () => Promise<{ violations: Violation[] }> } };
      interface Violation {
        readonly id: string;
        readonly nodes: readonly { readonly html: string; readonly failureSummary: string }[];
      }
      const found = (await tool.run()).violations;
      return found.flatMap(({ id, nodes }) => nodes.slice(0, 3).map(({ html, failureSummary }) => `${id}: ${html} ${failureSummary}`));
    });
    expect(violations, `${what}: axe-core`).toEqual([]);
    expect(this.complaints.splice(0).filter((complaint) => !expected?.test(complaint)), what).toEqual([]);
  }

  close(): Promise<void> {
    return this.page.close();
  }
}

/** Reads a JSON answer of a collector. */
export async function json<T>(origin: string, path: string): Promise<T> {
  const response = await fetch(origin.replace(/\/$/, "") + path);
  return (await response.json()) as T;
}
