/** The rest of a job's report: rails, hosts, health, transport, neighbors, quality. */

import type { Report, ReportFinding, ReportHost } from "../../api/types";
import { figureText, total } from "../../jobs/figures";
import { nameOf } from "../../jobs/compare";
import { duration, percent } from "../../lib/format";
import { JobLink, NodeLink } from "../../parts/links";
import { Note } from "../../parts/notes";
import { Table, type Column } from "../../parts/table";
import { href } from "../../router";

export function ReportDetails({ of }: { of: Report }) {
  return (
    <>
      <Rails of={of} />
      <Hosts of={of} />
      <Health of={of} />
      <Inside of={of} />
      <div class="columns">
        <Neighbors of={of} />
        <Earlier of={of} />
      </div>
      <Quality of={of} />
    </>
  );
}

function Rails({ of }: { of: Report }) {
  const { rails, straggler } = of.traffic;
  if (rails.length === 0) return null;
  return (
    <section>
      <h2>Rails</h2>
      {straggler && (
        <Note>
          <NodeLink node={straggler.host} /> {straggler.device} {straggler.text}
        </Note>
      )}
      <div class="table">
        <table>
          <thead>
            <tr>
              <th scope="col">Rail</th>
              {["Ports", "Sent", "Received", "Of the mean", "Paused"].map((head) => (
                <th key={head} scope="col" class="number">
                  {head}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {rails.map((rail) => (
              <tr key={rail.rail}>
                <td>{rail.rail}</td>
                <td class="number">{rail.ports}</td>
                <td class="number">{figureText(rail.transmitted)}</td>
                <td class="number">{figureText(rail.received)}</td>
                <td class="number">{rail.of_mean === null ? "–" : percent(rail.of_mean)}</td>
                <td class="number">{figureText(rail.paused)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </section>
  );
}

const HOST_COLUMNS: readonly Column<ReportHost>[] = [
  { name: "host", head: "Host", cell: ({ host }) => <NodeLink node={host} />, sort: ({ host }) => host },
  ...(
    [
      ["sent", "Sent", "transmitted", "Bytes that its ports sent"],
      ["received", "Received", "received", "Bytes that its ports received"],
      ["paused", "Paused", "paused", "Share of time in which its worst port could not send"],
      ["pausing", "Pausing", "pausing", "Share of time in which its worst port paused its switch"],
      ["cnp", "CNPs sent", "cnp_sent", "Congestion notifications for marked packets"],
      ["errors", "Link errors", "link_errors", "Symbol, CRC and receive errors"],
    ] as const
  ).map(
    ([name, head, field, help]): Column<ReportHost> => ({
      name,
      head,
      help,
      cell: (row) => (row.measured ? figureText(row[field]) : "–"),
      sort: (row) => total(row[field]),
      number: true,
    }),
  ),
];

function Hosts({ of }: { of: Report }) {
  const { hosts } = of.traffic;
  return (
    <section>
      <h2>Hosts</h2>
      <Table
        label="Hosts of the job"
        rows={hosts}
        columns={HOST_COLUMNS}
        rowKey={({ host }) => host}
        sort="host"
        {...(hosts.length > 16 ? { height: 480 } : {})}
      />
    </section>
  );
}

function Health({ of }: { of: Report }) {
  const { health, transport, peers } = of;
  return (
    <section>
      <h2>Links, settings and transport</h2>
      {transport.red_flag && <Note bad>{transport.red_flag}</Note>}
      <dl class="facts">
        <dt>Link errors</dt>
        <dd>{figureText(health.link_errors)}</dd>
        <dt>Discarded packets</dt>
        <dd>{figureText(health.discards)}</dd>
        <dt>Retransmitted packets</dt>
        <dd>{figureText(health.retransmits)}</dd>
        <dt>RDMA</dt>
        <dd>{figureText(transport.rdma)}</dd>
        <dt>TCP</dt>
        <dd>
          {figureText(transport.tcp)}
          {transport.tcp_share !== null && ` (${percent(transport.tcp_share)} of both)`}
        </dd>
        <dt>Pattern</dt>
        <dd>{peers.text}</dd>
      </dl>
      <Findings of={health.findings} />
    </section>
  );
}

function Inside({ of }: { of: Report }) {
  const { gpus, findings } = of.inside;
  if (gpus === 0) return null;
  return (
    <section>
      <h2>Inside the hosts</h2>
      <p class="soft">
        {gpus} GPUs at the end of the job{findings.length === 0 && ": no problem of GPUs, NVLinks and their ways to the network"}.
      </p>
      <Findings of={findings} />
    </section>
  );
}

function Findings({ of }: { of: readonly ReportFinding[] }) {
  return (
    <ul class="plain">
      {of.map(({ severity, place, text, action }, n) => (
        <li key={n} class={`point ${severity}`}>
          <b>{place}</b>: {text}; {action}
        </li>
      ))}
    </ul>
  );
}

const SHARES = { devices: "network devices", hosts: "hosts", leaf: "a leaf switch" } as const;
/** Neighbors that are written out. */
const NEIGHBORS = 12;

function Neighbors({ of }: { of: Report }) {
  const { neighbours } = of;
  return (
    <section>
      <h2>Jobs beside it</h2>
      {neighbours.length === 0 && <p class="soft">No other job shared a leaf switch, a host or a device with it.</p>}
      <ul class="plain">
        {neighbours.slice(0, NEIGHBORS).map((one) => (
          <li key={nameOf(one)}>
            <JobLink name={nameOf(one)} /> {one.name}{" "}
            <span class="soft">
              {one.user && `of ${one.user}, `}shares {SHARES[one.shares]} for {duration(one.seconds)}
            </span>
          </li>
        ))}
        {neighbours.length > NEIGHBORS && <li class="soft">and {neighbours.length - NEIGHBORS} more</li>}
      </ul>
    </section>
  );
}

function Earlier({ of }: { of: Report }) {
  const { job, summary } = of;
  return (
    <section>
      <h2>Earlier jobs of this size</h2>
      {summary.earlier.length === 0 && <p class="soft">The same user has run none with as many hosts lately.</p>}
      <ul class="plain">
        {summary.earlier.map((one) => {
          const b = nameOf({ cluster: job.cluster, id: one.id });
          return (
            <li key={`${one.id} ${one.run}`}>
              <a href={href("/compare", { a: nameOf(job), a_run: String(job.run), b, b_run: String(one.run) })}>compare</a> with{" "}
              <JobLink name={b} /> {one.name}{" "}
              <span class="soft">
                ran {duration(one.seconds)}, sent {figureText(one.transmitted)}, paused {figureText(one.paused)}
              </span>
            </li>
          );
        })}
      </ul>
    </section>
  );
}

function Quality({ of }: { of: Report }) {
  const { quality, summary } = of;
  return (
    <section>
      <h2>What the numbers rest on</h2>
      <p class="soft">
        {quality.measured} of {of.job.hosts} hosts measured; {quality.exclusive_ports} ports that only this job used,{" "}
        {quality.shared_ports} shared with other jobs. {summary.cost.basis}
      </p>
      {quality.missing.length > 0 && <Note>Not measured: {quality.missing.slice(0, 16).join(", ")}{quality.missing.length > 16 && " …"}</Note>}
    </section>
  );
}
