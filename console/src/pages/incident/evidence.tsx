import { useMemo } from "preact/hooks";
import type { EvidenceSeries, Incident, IncidentAnswer } from "../../api/types";
import { lines, moving } from "../../charts/series";
import { Plot, type Threshold } from "../../charts/plot";
import { inUnit, nsToMs } from "../../lib/format";
import { portOf } from "../../lib/promql";
import { metricUnit } from "../../lib/units";
import { QueryLink } from "../../parts/links";

/** The values that support the verdict, and their series around the incident. */
export function EvidencePlots({ of }: { of: IncidentAnswer }) {
  const { incident, series = [] } = of;
  const full = series.filter((one) => one.result.length > 0);
  return (
    <section>
      <h2>Evidence</h2>
      <ul class="plain">
        {incident.evidence.map((one, n) => {
          const unit = metricUnit(one.metric);
          return (
            <li key={n}>
              <code>{one.metric}</code> at {one.at}: <b>{inUnit(one.value, unit)}</b>{" "}
              <span class="soft">threshold {inUnit(one.threshold, unit)}</span>
            </li>
          );
        })}
      </ul>
      <div class="plots">
        {full.map((one) => (
          <EvidencePlot key={one.query} series={one} incident={incident} end_ms={of.window?.end_ms ?? Date.now()} />
        ))}
      </div>
    </section>
  );
}

function EvidencePlot({ series, incident, end_ms }: { series: EvidenceSeries; incident: Incident; end_ms: number }) {
  const drawn = useMemo(
    () =>
      moving(
        lines(series.result, (labels) =>
          [labels["host"], portOf(labels), labels["priority"] && `priority ${labels["priority"]}`].filter(Boolean).join(" "),
        ),
      ),
    [series],
  );
  const thresholds = useMemo<Threshold[]>(() => {
    const values = new Set(incident.evidence.filter(({ metric }) => metric === series.metric).map((one) => one.threshold));
    return [...values].filter((value) => value > 0).map((value) => ({ value, name: "threshold" }));
  }, [series, incident.evidence]);
  const direction = /direction="(\w+)"/.exec(series.query)?.[1];
  return (
    <div>
      <Plot
        title={`${series.metric}${direction ? `, ${direction}` : ""}`}
        unit={metricUnit(series.metric)}
        lines={drawn}
        thresholds={thresholds}
        span={{ from: nsToMs(incident.start_ns) / 1000, to: (incident.end_ns === null ? end_ms : nsToMs(incident.end_ns)) / 1000 }}
        sync="evidence"
      />
      <QueryLink query={series.query}>Open in Explore</QueryLink>
    </div>
  );
}
