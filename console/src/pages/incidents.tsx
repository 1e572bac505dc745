/** Incidents: a list with filters, the latest first; changes appear at once. */

import { getJson } from "../api/client";
import { useAnswer, useNow } from "../api/hooks";
import { useLive } from "../api/stream";
import { KINDS, type Incident, type IncidentList } from "../api/types";
import { SeverityBadge, StateBadges } from "../parts/badges";
import { SelectFilter, TextFilter } from "../parts/filters";
import { JobLinks, LocationLink, locationText } from "../parts/links";
import { Loaded, Note } from "../parts/notes";
import { Table, type Column } from "../parts/table";
import { clock, duration, kindWords, nsToMs, percent } from "../lib/format";
import { href, usePlace } from "../router";

/** Time that the filter `since` names, seconds. */
const SINCE = [
  ["", "any time"],
  ["3600", "last hour"],
  ["86400", "last day"],
  ["604800", "last week"],
] as const;
/** Incidents of one answer. */
const LIMIT = 500;

export default function Incidents() {
  const { params } = usePlace();
  const { changes } = useLive();
  const since = Number(params.get("since") ?? 0);
  const filters = Object.fromEntries(
    ["state", "kind", "severity", "job", "node"].map((name) => [name, params.get(name) ?? undefined]),
  );
  const answer = useAnswer(
    (signal) => {
      const from = since > 0 ? Math.floor(Date.now() / 1000 - since) : undefined;
      return getJson<IncidentList>("/api/v1/incidents", { ...filters, from, limit: LIMIT }, signal);
    },
    [changes, since, ...Object.values(filters)],
    15_000,
  );
  return (
    <>
      <h1>Incidents</h1>
      <form class="filters" onSubmit={(event) => event.preventDefault()}>
        <SelectFilter label="State" name="state" options={[["", "all"], ["open", "open"], ["ended", "ended"]]} />
        <SelectFilter
          label="Severity"
          name="severity"
          options={[["", "critical and warning"], ["critical", "critical"], ["warning", "warning"], ["info", "observations"]]}
        />
        <SelectFilter label="Kind" name="kind" options={[["", "all"], ...KINDS.map((kind) => [kind, kindWords(kind)] as const)]} />
        <TextFilter label="Job" name="job" placeholder="4711" />
        <TextFilter label="Host or switch" name="node" placeholder="gpu-01" />
        <SelectFilter label="Since" name="since" options={SINCE} />
      </form>
      <Loaded of={answer}>{(list) => <List of={list} />}</Loaded>
    </>
  );
}

const COLUMNS: readonly Column<Incident>[] = [
  {
    name: "kind",
    head: "Incident",
    cell: (one) => (
      <a href={href(`/incidents/${encodeURIComponent(one.id)}`)}>{kindWords(one.reclassified?.kind ?? one.kind)}</a>
    ),
    sort: (one) => one.kind,
  },
  { name: "at", head: "Where", cell: (one) => <LocationLink at={one.root} />, sort: (one) => locationText(one.root) },
  {
    name: "severity",
    head: "Severity",
    cell: (one) => <SeverityBadge severity={one.severity} />,
    sort: (one) => ["info", "warning", "critical"].indexOf(one.severity),
  },
  { name: "state", head: "State", cell: (one) => <StateBadges incident={one} />, sort: (one) => one.state },
  {
    name: "start",
    head: "Began",
    cell: (one) => clock(nsToMs(one.start_ns)),
    sort: (one) => one.start_ns,
    number: true,
  },
  {
    name: "for",
    head: "Lasts",
    cell: (one) => <Lasts of={one} />,
    sort: (one) => (one.end_ns ?? Date.now() * 1e6) - one.start_ns,
    number: true,
  },
  { name: "confidence", head: "Confidence", cell: (one) => percent(one.confidence), sort: (one) => one.confidence, number: true },
  {
    name: "victims",
    head: "Victim jobs",
    cell: (one) => <JobLinks names={one.victim_jobs} none="none" />,
    sort: (one) => one.victim_jobs.length,
  },
  {
    name: "culprits",
    head: "Culprit jobs",
    cell: (one) => <JobLinks names={one.culprit_jobs} none="none" />,
    sort: (one) => one.culprit_jobs.length,
  },
];

function Lasts({ of }: { of: Incident }) {
  const now = useNow(1000);
  return <>{duration(nsToMs((of.end_ns ?? now * 1e6) - of.start_ns) / 1000)}</>;
}

function List({ of }: { of: IncidentList }) {
  if (of.total === 0) return <Note>No incident matches. The detectors look at every sample as it arrives.</Note>;
  return (
    <>
      <p class="soft" role="status">
        {of.total === of.incidents.length ? `${of.total}` : `${of.incidents.length} of ${of.total}`} incidents
      </p>
      <Table
        label="Incidents"
        rows={of.incidents}
        columns={COLUMNS}
        rowKey={(one) => one.id}
        sort="start"
        height={640}
      />
    </>
  );
}
