/** Jobs: a list with filters, with the open incidents that each suffers from or causes. */

import { getJson } from "../api/client";
import { useAnswer, useNow } from "../api/hooks";
import { useLive } from "../api/stream";
import type { Envelope, Incident, IncidentList, Job } from "../api/types";
import { SelectFilter, TextFilter } from "../parts/filters";
import { JobLink } from "../parts/links";
import { Loaded, Note } from "../parts/notes";
import { Table, type Column } from "../parts/table";
import { clock, duration, kindWords, nsToMs } from "../lib/format";
import { href, usePlace } from "../router";

/** Jobs of one answer. */
const LIMIT = 1000;

interface Row {
  readonly job: Job;
  /** Name by which incidents call it. */
  readonly name: string;
  readonly hosts: number;
  readonly incidents: readonly { readonly of: Incident; readonly role: "victim" | "culprit" }[];
}

export default function Jobs() {
  const { params } = usePlace();
  const { changes } = useLive();
  const filters = Object.fromEntries(["state", "user", "host"].map((name) => [name, params.get(name) ?? undefined]));
  const answer = useAnswer(
    async (signal) => {
      const [jobs, incidents] = await Promise.all([
        getJson<Envelope<readonly Job[]> & { next?: string }>("/api/v1/jobs", { ...filters, limit: LIMIT }, signal),
        getJson<IncidentList>("/api/v1/incidents", { limit: LIMIT }, signal),
      ]);
      return { rows: rows(jobs.data, incidents.incidents), isCut: jobs.next !== undefined };
    },
    [changes, ...Object.values(filters)],
    15_000,
  );
  return (
    <>
      <h1>Jobs</h1>
      <form class="filters" onSubmit={(event) => event.preventDefault()}>
        <SelectFilter label="State" name="state" options={[["", "all"], ["running", "running"], ["ended", "ended"]]} />
        <TextFilter label="User" name="user" />
        <TextFilter label="Host" name="host" placeholder="gpu-01" />
      </form>
      <Loaded of={answer}>
        {({ rows: all, isCut }) =>
          all.length === 0 ? (
            <Note>
              No job matches. Jobs come from Slurm, Kubernetes, files, agents, or from whoever reports them to{" "}
              <code>POST /api/v1/jobs</code>.
            </Note>
          ) : (
            <>
              {isCut && <Note>The latest {LIMIT} jobs are listed; filter for others.</Note>}
              <Table label="Jobs" rows={all} columns={COLUMNS} rowKey={({ name, job }) => `${name} ${job.run}`} sort="start" height={640} />
            </>
          )
        }
      </Loaded>
    </>
  );
}

function rows(jobs: readonly Job[], incidents: readonly Incident[]): Row[] {
  return jobs.map((job) => {
    const name = job.cluster ? `${job.cluster}/${job.id}` : job.id;
    const during = incidents.filter(
      (one) => (one.end_ns ?? Infinity) >= job.start_ns && one.start_ns <= (job.end_ns ?? Infinity),
    );
    const of = during.flatMap((one): Row["incidents"] => {
      if (one.culprit_jobs.includes(name)) return [{ of: one, role: "culprit" }];
      return one.victim_jobs.includes(name) ? [{ of: one, role: "victim" }] : [];
    });
    return { job, name, hosts: Object.keys(job.hosts).length, incidents: of };
  });
}

/** Time during which a job was the victim of some incident, s; overlaps count once. */
export function sufferedSeconds(incidents: Row["incidents"], now = Date.now()): number {
  const spans = incidents
    .filter(({ role }) => role === "victim")
    .map(({ of }) => [nsToMs(of.start_ns), of.end_ns === null ? now : nsToMs(of.end_ns)] as const)
    .sort(([a], [b]) => a - b);
  let [total, until] = [0, -Infinity];
  for (const [from, to] of spans) {
    total += Math.max(0, to - Math.max(from, until));
    until = Math.max(until, to);
  }
  return total / 1000;
}

const COLUMNS: readonly Column<Row>[] = [
  {
    name: "id",
    head: "Job",
    cell: ({ name, job }) => (
      <>
        <JobLink name={name} /> {job.name}
      </>
    ),
    sort: ({ name }) => name,
  },
  { name: "user", head: "User", cell: ({ job }) => job.user, sort: ({ job }) => job.user },
  { name: "state", head: "State", cell: ({ job }) => <span class={`badge ${job.state}`}>{job.state}</span>, sort: ({ job }) => job.state },
  { name: "hosts", head: "Hosts", cell: ({ hosts }) => hosts, sort: ({ hosts }) => hosts, number: true },
  { name: "start", head: "Began", cell: ({ job }) => clock(nsToMs(job.start_ns)), sort: ({ job }) => job.start_ns, number: true },
  {
    name: "for",
    head: "Ran",
    cell: ({ job }) => <Ran job={job} />,
    sort: ({ job }) => (job.end_ns ?? Date.now() * 1e6) - job.start_ns,
    number: true,
  },
  {
    name: "suffered",
    head: "Victim for",
    help: "Time during which an incident cost the job throughput; its report says how much",
    cell: ({ incidents }) => {
      const seconds = sufferedSeconds(incidents);
      return seconds > 0 ? duration(seconds) : "–";
    },
    sort: ({ incidents }) => sufferedSeconds(incidents),
    number: true,
  },
  {
    name: "incidents",
    head: "Incidents",
    cell: ({ incidents, name }) => <Incidents of={incidents} name={name} />,
    sort: ({ incidents }) => incidents.filter(({ of }) => of.state === "open").length,
  },
];

function Ran({ job }: { job: Job }) {
  const now = useNow(1000);
  return <>{duration(nsToMs((job.end_ns ?? now * 1e6) - job.start_ns) / 1000)}</>;
}

/** The open incidents of a job, and the number of the others. */
function Incidents({ of, name }: { of: Row["incidents"]; name: string }) {
  const open = of.filter(({ of: one }) => one.state === "open");
  const ended = of.length - open.length;
  return (
    <>
      {open.map(({ of: one, role }) => (
        <a key={one.id} href={href(`/incidents/${encodeURIComponent(one.id)}`)} class={`badge ${one.severity}`}>
          {role} of {kindWords(one.kind)}
        </a>
      ))}{" "}
      {ended > 0 && <a href={href("/incidents", { job: name })}>{ended} ended</a>}
    </>
  );
}
