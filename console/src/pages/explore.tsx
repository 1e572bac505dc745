/** Explore: PromQL with completion, as a plot over a range and as a table of the instant. The query is in the URL. */

import { useEffect, useState } from "preact/hooks";
import { query, type ApiError } from "../api/client";
import { useAnswer } from "../api/hooks";
import { isRemembered, rememberQuery } from "../lib/asked";
import { go, href, setParams, usePlace } from "../router";
import { SelectFilter } from "../parts/filters";
import { Loaded, Note, Warnings } from "../parts/notes";
import { Editor } from "./explore/editor";
import { Results, type Result } from "./explore/results";

/** Ranges of the plot, seconds. */
const RANGES = [
  ["300", "5 minutes"],
  ["900", "15 minutes"],
  ["3600", "1 hour"],
  ["21600", "6 hours"],
  ["86400", "1 day"],
  ["604800", "1 week"],
] as const;
/** Points of a plot. */
const POINTS = 300;
/** Series of an answer. */
const LIMIT = 1000;

const EXAMPLES = [
  ["busiest ports", "topk(10, sum by (host, device, port, direction) (rate(fabric_port_io_bytes_total[1m])))"],
  ["ports that send pause", 'topk(10, rate(fabric_pfc_pause_seconds_total{direction="transmit"}[1m]))'],
  ["ports that are paused", 'topk(10, rate(fabric_pfc_pause_seconds_total{direction="receive"}[1m]))'],
  ["link errors", "topk(10, sum by (host, device, port) (increase(fabric_link_errors_total[15m])) > 0)"],
  ["ports", "fabric_port_info"],
  ["samples per second by way in", "sum by (source) (rate(fabriclens_ingest_samples_total[1m]))"],
  ["series by metric", 'topk(10, count by (__name__) ({__name__!=""}))'],
] as const;

export default function Explore() {
  const { params } = usePlace();
  const asked = params.get("q") ?? "";
  const [text, setText] = useState(asked);
  const [isOwn, setOwn] = useState(asked === "" || isRemembered(asked));
  const [turn, setTurn] = useState(0);
  useEffect(() => {
    setText(asked);
    setOwn(asked === "" || isRemembered(asked));
  }, [asked]);
  const run = (wanted: string) => {
    const trimmed = wanted.trim();
    if (!trimmed) return;
    rememberQuery(trimmed);
    setOwn(true);
    setTurn((n) => n + 1);
    if (trimmed === asked) return;
    go(href("/explore", { ...Object.fromEntries(params), q: trimmed }));
  };
  return (
    <>
      <h1>Explore</h1>
      <Editor text={text} onChange={setText} onRun={() => run(text)} />
      <p class="examples">
        {EXAMPLES.map(([words, promql]) => (
          <button key={words} class="quiet" title={promql} onClick={() => run(promql)}>
            {words}
          </button>
        ))}
      </p>
      <form class="filters" onSubmit={(event) => event.preventDefault()}>
        <SelectFilter label="Range" name="range" options={RANGES.map(([value, words]) => [value === "900" ? "" : value, words])} />
        <label class="filter">
          Until
          <input
            type="datetime-local"
            value={localTime(params.get("end"))}
            onChange={(event) => setParams({ end: unixTime(event.currentTarget.value) })}
          />
        </label>
        {params.get("end") && <button onClick={() => setParams({ end: undefined })}>now</button>}
      </form>
      {asked !== "" && !isOwn && (
        <Note>
          This query came with the link. Read it, then choose Run. <button onClick={() => run(asked)}>Run</button>
        </Note>
      )}
      {asked !== "" && isOwn && (
        <Answered key={turn} promql={asked} range={Number(params.get("range") ?? 900)} end={params.get("end") ?? undefined} />
      )}
    </>
  );
}

function Answered({ promql, range, end }: { promql: string; range: number; end: string | undefined }) {
  const answer = useAnswer(
    async (signal): Promise<Result> => {
      const began = performance.now();
      const until = end ? Number(end) : Date.now() / 1000;
      const step = Math.max(1, Math.ceil(range / POINTS));
      const instant = await query(promql, { time: until, limit: LIMIT }, signal);
      // Not every expression has a range: a range vector is shown as a table only.
      const over = await query(promql, { start: until - range, end: until, step, limit: LIMIT }, signal).catch(
        (error: ApiError) => error,
      );
      return { instant, over: over instanceof Error ? undefined : over, ms: performance.now() - began };
    },
    [promql, range, end],
  );
  return (
    <Loaded of={answer}>
      {(result) => (
        <>
          <Warnings texts={[...(result.instant.warnings ?? []), ...(result.instant.infos ?? [])]} />
          <Results of={result} />
        </>
      )}
    </Loaded>
  );
}

/** Unix seconds as a field of local time shows them. */
function localTime(unix: string | null): string {
  if (!unix) return "";
  const at = new Date(Number(unix) * 1000);
  return new Date(at.getTime() - at.getTimezoneOffset() * 60_000).toISOString().slice(0, 16);
}

function unixTime(local: string): string | undefined {
  const ms = Date.parse(local);
  return Number.isFinite(ms) ? String(ms / 1000) : undefined;
}
