import { readdirSync, readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { inline, parse, plain, resolve, type Block } from "./markdown";

test("a runbook has headings, lists that go on over lines, and code", () => {
  const [title, text, list, code] = parse("# A `b`\n\nOne\ntwo.\n\n1. First\n   goes on.\n2. Second\n   - inner\n\n```sh\nls | wc\n```\n");
  expect(title).toEqual({ type: "heading", level: 1, id: "a-b", inside: [{ type: "text", text: "A " }, { type: "code", text: "b" }] });
  expect(text).toEqual({ type: "paragraph", inside: [{ type: "text", text: "One two." }] });
  expect(list?.type === "list" && [list.ordered, list.items.map((item) => item.map(({ type }) => type))]).toEqual([
    true,
    [["paragraph"], ["paragraph", "list"]],
  ]);
  expect(code).toEqual({ type: "code", text: "ls | wc" });
});

test("tables have cells, and a bar in code does not end one", () => {
  const [table] = parse("| a | b |\n|---|---|\n| `x \\| y` | [z](z.md) |\n");
  if (table?.type !== "table") throw new Error("no table");
  expect(table.head.map(plain)).toEqual(["a", "b"]);
  expect(table.rows[0]?.map(plain)).toEqual(["x | y", "z"]);
});

test("marks are read, and what looks like HTML stays text", () => {
  expect(inline("**a** *b c* <b>x</b> 2 * 3 * 4")).toEqual([
    { type: "strong", inside: [{ type: "text", text: "a" }] },
    { type: "text", text: " " },
    { type: "em", inside: [{ type: "text", text: "b c" }] },
    { type: "text", text: " <b>x</b> 2 * 3 * 4" },
  ]);
});

test("links lead to pages that the console shows, and to no others", () => {
  expect(resolve("runbooks/a.md", "link-down.md#do")).toEqual({ page: "runbooks/link-down.md", hash: "#do" });
  expect(resolve("runbooks/a.md", "../verdicts.md")).toEqual({ page: "verdicts.md", hash: "" });
  expect(resolve("verdicts.md", "#paths")).toEqual({ page: "verdicts.md", hash: "#paths" });
  expect(["../gnmi.md", "../../dashboards/alerts", "https://x/runbooks/a.md", "../../../runbooks/a.md"].map((to) => resolve("runbooks/a.md", to))).toEqual(
    Array(4).fill(undefined),
  );
});

test("every page of the documentation is read whole", () => {
  const docs = `${import.meta.dirname}/../../../docs/`;
  const pages = readdirSync(`${docs}runbooks`).map((name) => `runbooks/${name}`);
  const text = (block: Block): string => {
    switch (block.type) {
      case "code":
        return block.text;
      case "list":
        return block.items.flatMap((item) => item.map(text)).join("");
      case "table":
        return [...block.head, ...block.rows.flat()].map(plain).join("");
      default:
        return plain(block.inside);
    }
  };
  const letters = (of: string) => of.replace(/[^\p{L}]/gu, "");
  for (const page of ["audit.md", "verdicts.md", ...pages]) {
    const source = readFileSync(docs + page, "utf8");
    const shown = letters(parse(source).map(text).join(""));
    const wanted = letters(source.replace(/\]\([^)]*\)/g, "").replace(/^```.*$/gm, ""));
    // Long texts are compared where they first differ.
    const differs = [...wanted].findIndex((letter, at) => letter !== shown[at]);
    const around = (of: string) => of.slice(differs - 20, differs + 20);
    expect(differs < 0 ? "" : around(shown), page).toBe(differs < 0 ? "" : around(wanted));
    expect(shown.length, page).toBe(wanted.length);
  }
});
