/** Audit: settings of ports that are not as expected, why, and since when. */

import { readAudit, reasonText, type Audit, type Drift, type Split } from "../api/audit";
import { useAnswer } from "../api/hooks";
import { clock } from "../lib/format";
import { SeverityBadge } from "../parts/badges";
import { PortOrDeviceLink } from "../parts/links";
import { Loaded, Note } from "../parts/notes";
import { Table, type Column } from "../parts/table";

const SEVERITIES = ["info", "warning", "critical"];
/** Height of the table, px. */
const HEIGHT = 600;

const COLUMNS: readonly Column<Drift>[] = [
  {
    name: "severity",
    head: "Severity",
    cell: ({ severity }) => <SeverityBadge severity={severity} />,
    sort: ({ severity }) => SEVERITIES.indexOf(severity),
  },
  {
    name: "port",
    head: "Port",
    cell: ({ host, port }) => <PortOrDeviceLink node={host} port={port} />,
    sort: ({ host, port }) => `${host} ${port}`,
  },
  {
    name: "setting",
    head: "Setting",
    cell: ({ title, consequence }) => <span title={consequence}>{title}</span>,
    sort: ({ title }) => title,
  },
  { name: "value", head: "Is", cell: ({ value }) => <code>{value}</code>, sort: ({ value }) => value },
  { name: "expected", head: "Expected", cell: ({ expected }) => <code>{expected}</code>, sort: ({ expected }) => expected },
  { name: "reason", head: "Because of", cell: ({ reason }) => reasonText(reason), sort: ({ reason }) => reasonText(reason) },
  {
    name: "changed",
    head: "Changed",
    help: "Time of the change, and the value before; empty if it did not change within seven days",
    cell: ({ changed }) => (changed ? `${clock(changed.since_ms)}, before: ${changed.before}` : ""),
    sort: ({ changed }) => changed?.since_ms,
  },
];

export default function AuditPage() {
  const answer = useAnswer(readAudit, [], 10_000);
  return (
    <>
      <h1>Audit of settings</h1>
      <Loaded of={answer}>{(audit) => <Content audit={audit} />}</Loaded>
    </>
  );
}

function Content({ audit }: { audit: Audit }) {
  if (audit.time_ms === 0) return <Note>The first audit follows some seconds after the start of the collector.</Note>;
  return (
    <>
      <p>
        {audit.chosen === 0 ? "No setting differs" : `${audit.chosen} settings differ`} among {audit.compared} ports and devices, at{" "}
        {clock(audit.time_ms)}. They are compared with the site's baselines, the other end of the cable, and most ports of the rail.
      </p>
      {audit.error !== null && <Note bad>The last audit failed: {audit.error}</Note>}
      {audit.files.map(({ path, baselines, error }) => (
        <Note key={path} bad={error !== null}>
          {error ?? `${path}: ${baselines} baselines`}
        </Note>
      ))}
      {audit.drifts.length > 0 && (
        <Table
          label="Settings that differ"
          rows={audit.drifts}
          columns={COLUMNS}
          rowKey={({ host, port, key }) => `${host} ${port} ${key}`}
          sort="severity"
          height={HEIGHT}
        />
      )}
      {audit.drifts.length < audit.chosen && <Note>The worst {audit.drifts.length} are listed.</Note>}
      {audit.splits.length > 0 && <Splits of={audit.splits} />}
    </>
  );
}

function Splits({ of }: { of: readonly Split[] }) {
  return (
    <section>
      <h2>Without a majority</h2>
      <ul class="plain">
        {of.map(({ group, key, title, values }) => (
          <li key={`${group} ${key}`}>
            <b>{title}</b> of {group}:{" "}
            {values.map(({ value, members, example }) => `${value} on ${members} (as ${example})`).join("; ")}
          </li>
        ))}
      </ul>
    </section>
  );
}
