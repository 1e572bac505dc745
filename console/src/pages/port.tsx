/** One port: its cable, what is known of it, its counters as plots, its incidents. */

import { useMemo } from "preact/hooks";
import { getData, getJson, query } from "../api/client";
import { useAnswer } from "../api/hooks";
import { useLive } from "../api/stream";
import type { IncidentList, Labels, MatrixSeries, Topology } from "../api/types";
import { Plot } from "../charts/plot";
import { lines } from "../charts/series";
import { clock, inUnit, kindWords, nsToMs } from "../lib/format";
import { distinctLabels, portMatchers, portOf, seriesName } from "../lib/promql";
import { metricUnit } from "../lib/units";
import { SeverityBadge, StateBadges } from "../parts/badges";
import { SelectFilter } from "../parts/filters";
import { LocationLink, NodeLink, PortLink, QueryLink } from "../parts/links";
import { Loaded } from "../parts/notes";
import type { PageProps } from "../pages";
import { href, usePlace } from "../router";

export default function PortPage({ of }: PageProps) {
  const [node, port] = [of["node"] ?? "", of["port"] ?? ""];
  return (
    <article>
      <h1>
        <NodeLink node={node} /> {port}
      </h1>
      <Cable node={node} port={port} />
      <Incidents node={node} port={port} />
      <Plots node={node} port={port} />
      <Known node={node} port={port} />
    </article>
  );
}

function Cable({ node, port }: { node: string; port: string }) {
  const answer = useAnswer((signal) => getData<Topology>("/api/v1/topology", {}, signal), [node, port]);
  return (
    <Loaded of={answer}>
      {({ links }) => {
        const link = links.find((one) => (one.a === node && one.a_port === port) || (one.b === node && one.b_port === port));
        if (!link) return <p class="soft">Its cable is not known.</p>;
        const isA = link.a === node && link.a_port === port;
        return (
          <p>
            Cabled to <PortLink node={isA ? link.b : link.a} port={isA ? link.b_port : link.a_port} />
            <span class="soft">
              , known by {link.known}
              {link.rail !== null && `, rail ${link.rail}`}
            </span>
          </p>
        );
      }}
    </Loaded>
  );
}

function Incidents({ node, port }: { node: string; port: string }) {
  const { changes } = useLive();
  const answer = useAnswer(
    (signal) => getJson<IncidentList>("/api/v1/incidents", { node, limit: 100 }, signal),
    [node, port, changes],
  );
  return (
    <Loaded of={answer}>
      {({ incidents }) => {
        const text = JSON.stringify(port);
        const own = incidents.filter((one) => JSON.stringify([one.root, one.victim_ports]).includes(text)).slice(0, 10);
        return (
          own.length > 0 && (
            <section>
              <h2>Incidents</h2>
              <ul class="plain">
                {own.map((one) => (
                  <li key={one.id}>
                    {clock(nsToMs(one.start_ns))}{" "}
                    <a href={href(`/incidents/${encodeURIComponent(one.id)}`)}>{kindWords(one.kind)}</a> at{" "}
                    <LocationLink at={one.root} /> <SeverityBadge severity={one.severity} /> <StateBadges incident={one} />
                  </li>
                ))}
              </ul>
            </section>
          )
        );
      }}
    </Loaded>
  );
}

/** A plot of a port: counters of one kind as rates. */
interface PortPlot {
  readonly title: string;
  readonly promql: (matchers: string) => string;
  readonly unit: string;
}

const RATE = (metric: string) => (matchers: string) => `rate(${metric}{${matchers}}[30s])`;

const PLOTS: readonly PortPlot[] = [
  { title: "Traffic", promql: RATE("fabric_port_io_bytes_total"), unit: "By/s" },
  { title: "Pause (share of time)", promql: RATE("fabric_pfc_pause_seconds_total"), unit: "1" },
  { title: "Waits for credits", promql: RATE("fabric_port_xmit_wait_bytes_total"), unit: "By/s" },
  { title: "Congestion notifications", promql: RATE("fabric_cnp_packets_total"), unit: "1/s" },
  { title: "ECN marks", promql: RATE("fabric_ecn_marks_total"), unit: "1/s" },
  { title: "Queue", promql: (matchers) => `fabric_port_queue_bytes{${matchers}}`, unit: "By" },
  { title: "Link errors", promql: (matchers) => `rate({__name__=~"fabric_link_.*errors_total",${matchers}}[30s])`, unit: "1/s" },
  { title: "Discards", promql: RATE("fabric_port_discards_total"), unit: "1/s" },
  { title: "Retransmissions and NAKs", promql: (matchers) => `rate({__name__=~"fabric_rdma_(retransmits|sequence_naks|ack_timeouts)_total",${matchers}}[30s])`, unit: "1/s" },
];

const RANGES = [
  ["", "15 minutes"],
  ["3600", "1 hour"],
  ["21600", "6 hours"],
  ["86400", "1 day"],
] as const;

function Plots({ node, port }: { node: string; port: string }) {
  const range = Number(usePlace().params.get("range") ?? 900) || 900;
  const matchers = portMatchers(node, port);
  const answer = useAnswer(
    async (signal) => {
      const end = Date.now() / 1000;
      const step = Math.max(1, Math.ceil(range / 300));
      const all = PLOTS.map(async (plot) => {
        const { data } = await query(plot.promql(matchers), { start: end - range, end, step }, signal);
        return { plot, series: data.resultType === "matrix" ? data.result : [] };
      });
      return Promise.all(all);
    },
    [matchers, range],
    5000,
  );
  return (
    <section>
      <h2>Counters</h2>
      <form class="filters" onSubmit={(event) => event.preventDefault()}>
        <SelectFilter label="Range" name="range" options={RANGES} />
      </form>
      <Loaded of={answer}>
        {(all) => (
          <div class="plots">
            {all
              .filter(({ series, plot }) => plot.title === "Traffic" || moves(series))
              .map(({ plot, series }) => (
                <OnePlot key={plot.title} plot={plot} series={series} query={plot.promql(matchers)} />
              ))}
          </div>
        )}
      </Loaded>
    </section>
  );
}

/** Plots of nothing but zeros tell nothing. */
function moves(series: readonly MatrixSeries[]): boolean {
  return series.some(({ values }) => (values ?? []).some(([, value]) => Number(value) > 0));
}

function OnePlot({ plot, series, query: promql }: { plot: PortPlot; series: readonly MatrixSeries[]; query: string }) {
  const drawn = useMemo(() => {
    const shown = series.filter((one) => moves([one]));
    const differing = distinctLabels(shown.map(({ metric }) => metric));
    return lines(shown, (labels) => differing.map((label) => labels[label]).filter(Boolean).join(" "));
  }, [series]);
  return (
    <div>
      <Plot title={plot.title} unit={plot.unit} lines={drawn} sync="port" />
      <QueryLink query={promql}>Open in Explore</QueryLink>
    </div>
  );
}

/** Facts that stand in labels (firmware, cable, settings), and every gauge of the port. */
function Known({ node, port }: { node: string; port: string }) {
  const matchers = portMatchers(node, port);
  const answer = useAnswer(
    async (signal) => {
      const { data } = await query(`{__name__=~"fabric_.*",__name__!~".*_total|.*_bucket",${matchers}}`, { limit: 300 }, signal);
      return data.resultType === "vector" ? data.result : [];
    },
    [matchers],
    30_000,
  );
  return (
    <section>
      <h2>What is known of it</h2>
      <Loaded of={answer}>
        {(samples) => {
          const isInfo = (labels: Labels) => (labels["__name__"] ?? "").endsWith("_info");
          return (
            <>
              {samples.filter(({ metric }) => isInfo(metric)).map(({ metric }) => <Info key={seriesName(metric)} labels={metric} />)}
              <dl class="facts wide">
                {samples
                  .filter(({ metric }) => !isInfo(metric))
                  .map(({ metric, value }) => (
                    <div key={seriesName(metric)}>
                      <dt>{short(metric)}</dt>
                      <dd>
                        {inUnit(Number(value?.[1]), metricUnit(metric["__name__"] ?? ""))}
                      </dd>
                    </div>
                  ))}
              </dl>
            </>
          );
        }}
      </Loaded>
    </section>
  );
}

/** Labels that say which port it is. */
const OWN = ["__name__", "host", "device", "port"];

function Info({ labels }: { labels: Labels }) {
  return (
    <p class="info">
      <b>{labels["__name__"]}</b>{" "}
      {Object.entries(labels)
        .filter(([name]) => !OWN.includes(name))
        .map(([name, value]) => (
          <span key={name}>
            {name} <code>{value}</code>{" "}
          </span>
        ))}
    </p>
  );
}

/** A series of this port without its place. */
function short(labels: Labels): string {
  const rest = Object.entries(labels).filter(([name]) => !OWN.includes(name));
  const name = (labels["__name__"] ?? "").replace(/^fabric_/, "");
  return [name, ...rest.map(([label, value]) => `${label} ${value}`)].join(" · ") || portOf(labels);
}
