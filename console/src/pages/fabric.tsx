/** Fabric: the topology, colored by a signal, now or at an instant of the past. */

import { useMemo } from "preact/hooks";
import { getData, getJson } from "../api/client";
import { useAnswer } from "../api/hooks";
import { useLive } from "../api/stream";
import type { IncidentList, PortSignals, Topology } from "../api/types";
import { nodesOf } from "../chain/layout";
import { FabricDrawing } from "../fabric/drawing";
import { Heat, heatColor } from "../fabric/heat";
import { SIGNALS, type Signal } from "../fabric/signals";
import { TimeBar } from "../fabric/timebar";
import { inUnit, kindWords } from "../lib/format";
import { Bar } from "../parts/badges";
import { SelectFilter } from "../parts/filters";
import { LocationLink, PortLink } from "../parts/links";
import { Loaded, Note } from "../parts/notes";
import { href, usePlace } from "../router";

/** Ports of the list. */
const LISTED = 16;

export default function Fabric() {
  const { params } = usePlace();
  const { changes } = useLive();
  const signal = SIGNALS.find(({ name }) => name === params.get("signal")) ?? SIGNALS[0];
  const time = params.get("time") ? Number(params.get("time")) : undefined;
  const span = Number(params.get("span") ?? 3600);
  const isLive = time === undefined;
  // Cables change seldom: a version is read once for each minute.
  const topology = useAnswer(
    (abort) => getData<Topology>("/api/v1/topology", { time }, abort),
    [isLive ? "live" : Math.floor(time / 60)],
    isLive ? 60_000 : undefined,
  );
  const signals = useAnswer(
    (abort) => getData<PortSignals>("/api/v1/topology/signals", { signals: signal?.name, time }, abort),
    [signal?.name, time],
    isLive ? 3000 : undefined,
  );
  const incidents = useAnswer(
    (abort) => {
      const during = isLive ? { state: "open" } : { from: time, to: time + 1 };
      return getJson<IncidentList>("/api/v1/incidents", { ...during, limit: 50 }, abort);
    },
    [changes, time],
  );
  return (
    <>
      <h1>Fabric</h1>
      <form class="filters" onSubmit={(event) => event.preventDefault()}>
        <SelectFilter label="Color by" name="signal" options={SIGNALS.map(({ name, words }, n) => [n === 0 ? "" : name, words])} />
        <Legend />
        <span class="soft">{signal?.help}</span>
      </form>
      <TimeBar time={time} span={span} />
      <Loaded of={topology}>
        {(of) =>
          of.nodes.length === 0 ? (
            <Note>
              No cable is known. Cables come from LLDP neighbors that agents see, from InfiniBand subnets, or from a topology
              file (<code>topology.files</code>).
            </Note>
          ) : (
            <Loaded of={signals}>
              {(values) =>
                signal && <Drawn topology={of} values={values} signal={signal} incidents={incidents.value ?? { total: 0, incidents: [] }} />
              }
            </Loaded>
          )
        }
      </Loaded>
    </>
  );
}

function Legend() {
  return (
    <span class="legend" aria-hidden="true">
      calm
      {[0, 0.2, 0.4, 0.6, 0.8, 1].map((share) => (
        <i key={share} style={{ background: heatColor(share) }} />
      ))}
      hot
    </span>
  );
}

function Drawn(props: { topology: Topology; values: PortSignals; signal: Signal; incidents: IncidentList }) {
  const { topology, values, signal, incidents } = props;
  const heat = useMemo(() => new Heat(values, signal), [values, signal]);
  const marked = useMemo(() => new Set(incidents.incidents.flatMap((one) => nodesOf(one.root))), [incidents]);
  const highest = heat.highest(LISTED);
  return (
    <>
      <FabricDrawing topology={topology} heat={heat} marked={marked} />
      <div class="columns">
        <section>
          <h2>Highest</h2>
          {highest.length === 0 && <p class="soft">No port has a value above zero.</p>}
          <ul class="plain">
            {highest.map(({ node, port, value }) => (
              <li key={`${node} ${port}`} class="hot">
                <PortLink node={node} port={port} />
                <Bar share={heat.share(value)} text={inUnit(value, heat.unit)} kind={signal.name.startsWith("util") ? "good" : "bad"} />
              </li>
            ))}
          </ul>
        </section>
        <section>
          <h2>Incidents at this time</h2>
          {incidents.incidents.length === 0 && <p class="soft">None.</p>}
          <ul class="plain">
            {incidents.incidents.map((one) => (
              <li key={one.id}>
                <a href={href(`/incidents/${encodeURIComponent(one.id)}`)} class={`badge ${one.severity}`}>
                  {kindWords(one.kind)}
                </a>{" "}
                <LocationLink at={one.root} />
              </li>
            ))}
          </ul>
          {topology.contradictions.length > 0 && (
            <Note>{topology.contradictions.length} contradictions between sources: {topology.contradictions[0]?.message}</Note>
          )}
        </section>
      </div>
    </>
  );
}
