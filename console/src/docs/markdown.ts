/** Reads the Markdown of the documentation, as far as its pages use it: headings, paragraphs, lists, tables, code, links. Text stays
 * text, so a page cannot bring HTML. */

/** A part of a line. */
export type Inline =
  | { readonly type: "text" | "code"; readonly text: string }
  | { readonly type: "strong" | "em"; readonly inside: readonly Inline[] }
  | { readonly type: "link"; readonly to: string; readonly inside: readonly Inline[] };

export type Block =
  | { readonly type: "heading"; readonly level: number; readonly id: string; readonly inside: readonly Inline[] }
  | { readonly type: "paragraph"; readonly inside: readonly Inline[] }
  | { readonly type: "code"; readonly text: string }
  | { readonly type: "list"; readonly ordered: boolean; readonly items: readonly (readonly Block[])[] }
  | { readonly type: "table"; readonly head: readonly (readonly Inline[])[]; readonly rows: readonly (readonly (readonly Inline[])[])[] };

const ITEM = /^(\s*)([-*]|\d+\.)\s+(.*)$/;

/** Id of a heading, as links to it are written. */
export function slug(text: string): string {
  return text
    .toLowerCase()
    .replace(/[^\p{L}\p{N}\s-]/gu, "")
    .trim()
    .replace(/\s/g, "-");
}

/** A text of several lines as blocks. */
export function parse(text: string): Block[] {
  return blocks(text.replaceAll("\r\n", "\n").split("\n"));
}

function blocks(lines: readonly string[]): Block[] {
  const out: Block[] = [];
  let at = 0;
  const line = () => lines[at] ?? "";
  const while_ = (is: (line: string) => boolean) => {
    const taken: string[] = [];
    while (at < lines.length && is(line())) taken.push(lines[at++] ?? "");
    return taken;
  };
  while (at < lines.length) {
    const heading = /^(#{1,6})\s+(.*)$/.exec(line());
    if (line().trim() === "") {
      at += 1;
    } else if (heading) {
      const inside = inline(heading[2] ?? "");
      out.push({ type: "heading", level: heading[1]?.length ?? 1, id: slug(plain(inside)), inside });
      at += 1;
    } else if (line().startsWith("```")) {
      at += 1;
      out.push({ type: "code", text: while_((one) => !one.startsWith("```")).join("\n") });
      at += 1;
    } else if (line().startsWith("|")) {
      out.push(table(while_((one) => one.startsWith("|"))));
    } else if (ITEM.test(line())) {
      out.push(list(while_((one) => ITEM.test(one) || (one.trim() !== "" && one.startsWith("  ")))));
    } else {
      const taken = while_((one) => one.trim() !== "" && !/^(#|```|\|)/.test(one) && !ITEM.test(one));
      out.push({ type: "paragraph", inside: inline(taken.map((one) => one.trim()).join(" ")) });
    }
  }
  return out;
}

/** Items begin where the first one does; what is further in belongs to the item before. */
function list(lines: readonly string[]): Block {
  const first = ITEM.exec(lines[0] ?? "");
  const indent = first?.[1]?.length ?? 0;
  const items: string[][] = [];
  for (const line of lines) {
    const item = ITEM.exec(line);
    if (item && (item[1]?.length ?? 0) <= indent) items.push([item[3] ?? ""]);
    else items[items.length - 1]?.push(line.trimStart() === line ? line : line.slice(Math.min(indent + 2, line.length - line.trimStart().length)));
  }
  return { type: "list", ordered: /\d/.test(first?.[2] ?? ""), items: items.map(blocks) };
}

function table(lines: readonly string[]): Block {
  const cells = (line: string) =>
    line
      .trim()
      .replace(/^\||\|$/g, "")
      .split(/(?<!\\)\|/)
      .map((cell) => inline(cell.trim().replaceAll("\\|", "|")));
  const [head = "", , ...rows] = lines;
  return { type: "table", head: cells(head), rows: rows.map(cells) };
}

/** Code first, so that nothing in it is taken for anything else; the text of a link may have code with brackets. */
const INLINE = /`([^`]+)`|\[((?:`[^`]+`|[^\]])+)\]\(([^)\s]+)\)|\*\*(.+?)\*\*|\*([^*\s](?:[^*]*[^*\s])?)\*/;

/** A line as parts. */
export function inline(text: string): Inline[] {
  const out: Inline[] = [];
  let rest = text;
  for (let found = INLINE.exec(rest); found; found = INLINE.exec(rest)) {
    if (found.index > 0) out.push({ type: "text", text: rest.slice(0, found.index) });
    const [whole, code, label, to, strong, em] = found;
    if (code !== undefined) out.push({ type: "code", text: code });
    else if (to !== undefined) out.push({ type: "link", to, inside: inline(label ?? "") });
    else if (strong !== undefined) out.push({ type: "strong", inside: inline(strong) });
    else out.push({ type: "em", inside: inline(em ?? "") });
    rest = rest.slice(found.index + whole.length);
  }
  if (rest) out.push({ type: "text", text: rest });
  return out;
}

/** The text of parts. */
export function plain(parts: readonly Inline[]): string {
  return parts.map((part) => ("text" in part ? part.text : plain(part.inside))).join("");
}

/** Page and heading that a link of a page leads to, if the console shows that page; pages are named from `docs/`. */
export function resolve(page: string, to: string): { page: string; hash: string } | undefined {
  const [path = "", anchor] = to.split("#");
  const hash = anchor ? `#${anchor}` : "";
  if (path === "") return { page, hash };
  if (/^[a-z]+:/.test(path)) return undefined;
  const parts = page.split("/").slice(0, -1);
  for (const part of path.split("/")) {
    if (part === "..") {
      if (parts.pop() === undefined) return undefined;
    } else if (part !== ".") parts.push(part);
  }
  const found = parts.join("/");
  return /^(runbooks\/[\w-]+|audit|verdicts)\.md$/.test(found) ? { page: found, hash } : undefined;
}
