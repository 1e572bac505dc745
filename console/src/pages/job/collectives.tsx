/** What the job's communication library reports, joined with the counters of its hosts. */

import type { RankStraggler, Report, ReportOperation, WorkRequest } from "../../api/types";
import { OnePlot } from "./report";
import { clock, duration, inUnit, nsToMs, percent } from "../../lib/format";
import { NodeLink } from "../../parts/links";

export function Collectives({ of }: { of: Report }) {
  const { operations, stragglers, work_requests, bandwidth, conclusion } = of.collectives;
  if (!conclusion && work_requests.length === 0) return null;
  return (
    <section>
      <h2>Collectives</h2>
      {conclusion && <p>{conclusion.text}</p>}
      {bandwidth && (
        <div class="plots">
          <OnePlot of={bandwidth.plot} />
        </div>
      )}
      <Stragglers of={stragglers} />
      <WorkRequests of={work_requests} />
      <Operations of={operations} />
    </section>
  );
}

function Stragglers({ of }: { of: readonly RankStraggler[] }) {
  if (of.length === 0) return null;
  return (
    <ul class="plain">
      {of.map(({ host, rank, start_ns, seconds, network, text }) => (
        <li key={`${host} ${rank} ${start_ns}`} class={`point ${network === "troubled" ? "critical" : "warning"}`}>
          {host ? <NodeLink node={host} /> : "host not known"}, {rank}: {text} (from {clock(nsToMs(start_ns))}, for {duration(seconds)})
        </li>
      ))}
    </ul>
  );
}

function WorkRequests({ of }: { of: readonly WorkRequest[] }) {
  if (of.length === 0) return null;
  return (
    <ul class="plain">
      {of.map(({ kind, from, to, local, network, text }) => (
        <li key={`${kind} ${from} ${local}`} class={`point ${network === "troubled" ? "critical" : "warning"}`}>
          {kind === "failed" ? "Failed" : "Slow"} work requests from {from}
          {to && ` to ${to}`} (queue pair {local}): {text}
        </li>
      ))}
    </ul>
  );
}

function Operations({ of }: { of: readonly ReportOperation[] }) {
  if (of.length === 0) return null;
  const value = (number: number | null, unit: string) => (number === null ? "–" : inUnit(number, unit));
  return (
    <div class="table">
      <table>
        <thead>
          <tr>
            <th scope="col">Operation</th>
            <th scope="col">Message</th>
            {["Completed", "Of all time in them", "Mean time", "Bus bandwidth", "Wait for the last"].map((head) => (
              <th key={head} scope="col" class="number">
                {head}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {of.map((one) => (
            <tr key={`${one.operation} ${one.size}`}>
              <td>{one.operation}</td>
              <td>{one.size === "0" ? "less" : `from ${one.size}`}</td>
              <td class="number">{value(one.executions, "")}</td>
              <td class="number">{percent(one.share)}</td>
              <td class="number">{value(one.mean_seconds, "s")}</td>
              <td class="number">{value(one.bandwidth, "By/s")}</td>
              <td class="number">{value(one.wait_seconds, "s")}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
