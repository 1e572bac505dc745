/** The part of a job's report that says what the network cost it. */

import { useMemo } from "preact/hooks";
import type { Report, ReportPlot } from "../../api/types";
import { Plot } from "../../charts/plot";
import type { Line } from "../../charts/series";
import { figureText, lostText, total } from "../../jobs/figures";
import { percent } from "../../lib/format";
import { Tile } from "../../parts/badges";
import { Note } from "../../parts/notes";

export function ReportSummary({ of }: { of: Report }) {
  const { cost, cause, points } = of.summary;
  const share = total(cost.at_most_share);
  const lost = lostText(cost.at_least, cost.at_most);
  return (
    <section>
      <h2>What the network cost it</h2>
      <div class="tiles">
        <Tile value={lost} label="lost" kind={(share ?? 0) > 0.05 ? "critical" : "good"} />
        <Tile value={share === undefined ? "–" : percent(share)} label="of its time, at most" kind={(share ?? 0) > 0.05 ? "critical" : "good"} />
        <Tile value={figureText(of.traffic.mean_rate)} label="sent, mean" />
        <Tile value={figureText(of.congestion.paused)} label="of port time paused" />
      </div>
      <ul class="plain">
        {points.map((point) => (
          <li key={point.text} class={`point ${point.severity}`}>
            {point.text}
          </li>
        ))}
      </ul>
      {cause.text && !points.some((point) => point.text.includes(cause.text)) && <p>{cause.text}</p>}
      {of.quality.notes.map((note) => (
        <Note key={note}>{note}</Note>
      ))}
    </section>
  );
}

export function ReportPlots({ of }: { of: Report }) {
  const plots = [of.traffic.plot, ...of.congestion.suffered, ...of.congestion.caused];
  const shown = plots.filter(hasValues);
  return (
    <div class="plots">
      {shown.map((plot) => (
        <OnePlot key={plot.title} of={plot} />
      ))}
    </div>
  );
}

/** The traffic of a run by rail. `top` is a value that the plot shows in any case, so that two plots have one scale. */
export function TrafficPlot({ of, top }: { of: Report; top?: number }) {
  return <OnePlot of={of.traffic.plot} {...(top === undefined ? {} : { top })} />;
}

/** Plots of nothing but zeros are left out, except that of the traffic. */
function hasValues(plot: ReportPlot): boolean {
  return plot.unit === "By/s" || plot.lines.some((line) => line.points.some((value) => (value ?? 0) > 0));
}

export function OnePlot({ of, top }: { of: ReportPlot; top?: number }) {
  const lines = useMemo<Line[]>(
    () =>
      of.lines.map(({ name, points }) => ({
        name: of.title.includes("by rail") ? `rail ${name}` : name,
        times: points.map((_, at) => of.start_ns / 1e9 + at * of.step_seconds),
        values: points,
      })),
    [of],
  );
  return <Plot title={of.title} unit={of.unit} lines={lines} {...(top === undefined ? { sync: "job" } : { top })} />;
}
