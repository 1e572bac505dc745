/** What may stand at the cursor of a query: metrics, labels, values of labels, functions. */

import { FUNCTIONS } from "./functions";

/** Names that the collector knows. */
export interface Vocabulary {
  readonly metrics: ReadonlyMap<string, string>;
  readonly labels: readonly string[];
}

export interface Suggestion {
  readonly text: string;
  readonly help: string;
  /** Inserted in place of the word; the cursor stands behind it. */
  readonly insert: string;
}

/** What is being typed at the cursor. */
export type Context =
  | { readonly kind: "name"; readonly word: string }
  | { readonly kind: "label"; readonly word: string }
  | { readonly kind: "value"; readonly label: string; readonly word: string };

/** Suggestions that are shown. */
const MOST = 12;

/** Finds what is being typed, from the text before the cursor. */
export function contextOf(before: string): Context | undefined {
  const value = /([A-Za-z_]\w*)\s*(?:=~|!~|!=|=)\s*"([^"]*)$/.exec(before);
  if (value) return { kind: "value", label: value[1] ?? "", word: value[2] ?? "" };
  const word = /[A-Za-z_:][\w:]*$/.exec(before)?.[0] ?? "";
  const rest = before.slice(0, before.length - word.length);
  const isInside = rest.lastIndexOf("{") > rest.lastIndexOf("}");
  const isGrouping = /\b(by|without|on|ignoring|group_left|group_right)\s*\([^)]*$/.test(rest);
  if (isInside || isGrouping) return { kind: "label", word };
  return word.length > 0 ? { kind: "name", word } : undefined;
}

/** Names with the word in them, those that begin with it first. */
function matching(names: Iterable<string>, word: string): string[] {
  const wanted = word.toLowerCase();
  const found = [...names].filter((name) => name.toLowerCase().includes(wanted) && name !== word);
  const rank = (name: string) => Number(!name.toLowerCase().startsWith(wanted));
  return found.sort((a, b) => rank(a) - rank(b) || a.localeCompare(b)).slice(0, MOST);
}

/** Suggestions at the cursor; `values` are those of the label of the context. */
export function suggest(context: Context, known: Vocabulary, values: readonly string[]): Suggestion[] {
  switch (context.kind) {
    case "value":
      return matching(values, context.word).map((text) => ({ text, help: "", insert: text.replace(/["\\]/g, "\\$&") }));
    case "label":
      return matching(known.labels, context.word).map((text) => ({ text, help: "", insert: text }));
    case "name": {
      const functions = new Map(FUNCTIONS);
      const names = matching([...functions.keys(), ...known.metrics.keys()], context.word);
      return names.map((text) => ({
        text,
        help: functions.get(text) ?? known.metrics.get(text) ?? "",
        insert: functions.has(text) ? `${text}(` : text,
      }));
    }
  }
}
