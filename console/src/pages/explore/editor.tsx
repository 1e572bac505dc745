/** The field of a query, with a list of what may stand at the cursor. */

import { useRef, useState } from "preact/hooks";
import { getData } from "../../api/client";
import { useAnswer } from "../../api/hooks";
import type { MetricHelp } from "../../api/types";
import { contextOf, suggest, type Suggestion, type Vocabulary } from "./completion";

const NOTHING: Vocabulary = { metrics: new Map(), labels: [] };
/** Values of a label that are read. */
const VALUES = 500;

async function vocabulary(signal: AbortSignal): Promise<Vocabulary> {
  const start = Math.floor(Date.now() / 1000) - 3600;
  const [metadata, names, labels] = await Promise.all([
    getData<Record<string, readonly MetricHelp[]>>("/api/v1/metadata", {}, signal),
    getData<readonly string[]>("/api/v1/label/__name__/values", { start }, signal),
    getData<readonly string[]>("/api/v1/labels", { start }, signal),
  ]);
  const metrics = new Map(names.map((name) => [name, ""]));
  for (const [name, [first]] of Object.entries(metadata)) if (first) metrics.set(name, `${first.type}. ${first.help}`);
  return { metrics, labels: labels.filter((label) => label !== "__name__") };
}

export function Editor({ text, onChange, onRun }: { text: string; onChange: (text: string) => void; onRun: () => void }) {
  const field = useRef<HTMLTextAreaElement>(null);
  const known = useAnswer(vocabulary, []).value ?? NOTHING;
  const [at, setAt] = useState<number>();
  const [chosen, setChosen] = useState(0);
  const context = at === undefined ? undefined : contextOf(text.slice(0, at));
  const label = context?.kind === "value" ? context.label : undefined;
  const values = useAnswer(
    async (signal) =>
      label ? getData<readonly string[]>(`/api/v1/label/${label}/values`, { limit: VALUES }, signal) : [],
    [label],
  );
  const list = context ? suggest(context, known, values.value ?? []) : [];
  const take = (suggestion: Suggestion) => {
    const end = at ?? text.length;
    const from = end - (context?.word.length ?? 0);
    onChange(text.slice(0, from) + suggestion.insert + text.slice(end));
    setAt(undefined);
    const cursor = from + suggestion.insert.length;
    requestAnimationFrame(() => {
      field.current?.focus();
      field.current?.setSelectionRange(cursor, cursor);
    });
  };
  const pressed = (event: KeyboardEvent) => {
    const marked = list[chosen];
    const step = event.key === "ArrowDown" ? 1 : event.key === "ArrowUp" ? -1 : 0;
    if (list.length > 0 && step !== 0) setChosen((chosen + step + list.length) % list.length);
    else if (list.length > 0 && marked && event.key === "Tab") take(marked);
    else if (event.key === "Escape") setAt(undefined);
    else if (event.key === "Enter" && !event.shiftKey) {
      setAt(undefined);
      onRun();
    } else return;
    event.preventDefault();
  };
  return (
    <form
      class="editor"
      onSubmit={(event) => {
        event.preventDefault();
        onRun();
      }}
    >
      <div class="field">
        <textarea
          ref={field}
          value={text}
          rows={Math.min(8, Math.max(2, text.split("\n").length))}
          spellcheck={false}
          aria-label="PromQL query. Tab takes the marked suggestion, Enter runs the query."
          aria-autocomplete="list"
          aria-controls="suggestions"
          aria-activedescendant={list.length > 0 ? `suggestion-${chosen}` : undefined}
          placeholder="PromQL, for instance: topk(5, rate(fabric_port_io_bytes_total[1m]))"
          onInput={(event) => {
            onChange(event.currentTarget.value);
            setAt(event.currentTarget.selectionStart);
            setChosen(0);
          }}
          onKeyDown={pressed}
          onBlur={() => setAt(undefined)}
        />
        <ul id="suggestions" role="listbox" aria-label="Suggestions" class="suggestions" hidden={list.length === 0}>
          {list.map((one, n) => (
            <li
              key={one.text}
              id={`suggestion-${n}`}
              role="option"
              aria-selected={n === chosen}
              onPointerDown={(event) => {
                event.preventDefault();
                take(one);
              }}
            >
              <code>{one.text}</code> <span class="soft">{one.help}</span>
            </li>
          ))}
        </ul>
      </div>
      <button disabled={text.trim() === ""}>Run</button>
    </form>
  );
}
