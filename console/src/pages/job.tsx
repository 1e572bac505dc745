/** One job: how much the network cost it, its traffic, who stands out, its incidents; the whole report by a link. */

import { apiUrl, getData, getJson, getText } from "../api/client";
import { useAnswer, useNow } from "../api/hooks";
import { useLive } from "../api/stream";
import type { IncidentList, Job, Report } from "../api/types";
import { Bar, SeverityBadge, StateBadges } from "../parts/badges";
import { LocationLink, NodeLink } from "../parts/links";
import { Loaded, Note } from "../parts/notes";
import { nameOf } from "../jobs/compare";
import { clock, duration, kindWords, nsToMs, percent } from "../lib/format";
import type { PageProps } from "../pages";
import { href } from "../router";
import { token } from "../session";
import { ReportPlots, ReportSummary } from "./job/report";
import { Collectives } from "./job/collectives";
import { ReportDetails } from "./job/details";

export default function JobPage({ of }: PageProps) {
  const { changes } = useLive();
  const [id, cluster] = [of["id"] ?? "", of["cluster"]];
  const path = `/api/v1/jobs/${encodeURIComponent(id)}`;
  const job = useAnswer((signal) => getData<Job>(path, { cluster }, signal), [id, cluster, changes], 15_000);
  const report = useAnswer(
    (signal) => getJson<Report>(`${path}/report`, { cluster, format: "json" }, signal),
    [id, cluster, changes],
    30_000,
  );
  const name = cluster ? `${cluster}/${id}` : id;
  return (
    <Loaded of={job} title={`Job ${name}`}>
      {(value) => (
        <article>
          <h1>
            Job {name} {value.name && <span class="soft">{value.name}</span>}
          </h1>
          <Head job={value} path={path} cluster={cluster} />
          <Loaded of={report}>
            {(of) => (
              <>
                <ReportSummary of={of} />
                <Collectives of={of} />
                <ReportPlots of={of} />
                <Standing of={of} />
              </>
            )}
          </Loaded>
          <Incidents name={name} />
          {report.value ? <ReportDetails of={report.value} /> : <Hosts job={value} />}
        </article>
      )}
    </Loaded>
  );
}

function Head({ job, path, cluster }: { job: Job; path: string; cluster: string | undefined }) {
  const now = useNow(1000);
  const start = nsToMs(job.start_ns);
  const ran = duration((job.end_ns === null ? now : nsToMs(job.end_ns)) / 1000 - start / 1000);
  return (
    <>
      <p class="meta">
        <span class={`badge ${job.state}`}>{job.state}</span> user {job.user || "unknown"} · {Object.keys(job.hosts).length} hosts ·
        since {clock(start)} · {job.state === "running" ? "runs for" : "ran"} {ran}
        {job.run > 1 && ` · run ${job.run}`} ·{" "}
        <a href={href("/compare", { a: nameOf(job), a_run: String(job.run) })}>compare with another run</a> · <ReportLink path={path} cluster={cluster} id={job.id} />
      </p>
      {job.disagreements.map((text) => (
        <Note key={text}>{text}</Note>
      ))}
    </>
  );
}

/** The whole report: a page of its own. A page cannot be opened with a token, so then it is downloaded. */
function ReportLink({ path, cluster, id }: { path: string; cluster: string | undefined; id: string }) {
  const url = apiUrl(`${path}/report`, { cluster }).href;
  if (!token()) {
    return (
      <a href={url} target="_blank" rel="noopener">
        whole report
      </a>
    );
  }
  const download = async () => {
    const page = new Blob([await getText(`${path}/report`, { cluster })], { type: "text/html" });
    const link = document.createElement("a");
    link.href = URL.createObjectURL(page);
    link.download = `job-${id}.html`;
    link.click();
    URL.revokeObjectURL(link.href);
  };
  return (
    <button class="link" onClick={() => void download()}>
      download the whole report
    </button>
  );
}

/** Ports of the job that paused others or were paused most. */
function Standing({ of }: { of: Report }) {
  const ports = of.congestion.ports.filter(({ paused, pausing }) => Math.max(paused ?? 0, pausing ?? 0) > 0.001).slice(0, 8);
  if (ports.length === 0) return null;
  return (
    <section>
      <h2>Ports that stand out</h2>
      <ul class="plain standing">
        {ports.map(({ host, device, paused, pausing }) => (
          <li key={`${host} ${device}`}>
            <span>
              <NodeLink node={host} /> {device}
            </span>
            <Bar share={pausing ?? 0} text={`pauses its switch ${percent(pausing ?? 0)} of the time`} kind="bad" />
            <Bar share={paused ?? 0} text={`may not send ${percent(paused ?? 0)} of the time`} />
          </li>
        ))}
      </ul>
    </section>
  );
}

function Incidents({ name }: { name: string }) {
  const { changes } = useLive();
  const answer = useAnswer(
    (signal) => getJson<IncidentList>("/api/v1/incidents", { job: name, limit: 20 }, signal),
    [name, changes],
  );
  return (
    <section>
      <h2>Incidents</h2>
      <Loaded of={answer}>
        {({ incidents }) =>
          incidents.length === 0 ? (
            <p class="soft">None.</p>
          ) : (
            <ul class="plain">
              {incidents.map((one) => (
                <li key={one.id}>
                  {clock(nsToMs(one.start_ns))}{" "}
                  <a href={href(`/incidents/${encodeURIComponent(one.id)}`)}>{kindWords(one.kind)}</a> at{" "}
                  <LocationLink at={one.root} /> <SeverityBadge severity={one.severity} /> <StateBadges incident={one} />{" "}
                  <span class="soft">{one.culprit_jobs.includes(name) ? "as culprit" : "as victim"}</span>
                </li>
              ))}
            </ul>
          )
        }
      </Loaded>
    </section>
  );
}

/** Hosts that are written out. */
const HOSTS = 128;

function Hosts({ job }: { job: Job }) {
  const hosts = Object.keys(job.hosts);
  return (
    <section>
      <h2>Hosts</h2>
      <ul class="inline">
        {hosts.slice(0, HOSTS).map((host) => (
          <li key={host}>
            <NodeLink node={host} />
          </li>
        ))}
        {hosts.length > HOSTS && <li class="soft">and {hosts.length - HOSTS} more</li>}
      </ul>
    </section>
  );
}
