/** One incident: what, where, who, since when, how sure; its evidence, its chain, its history, and what people did. */

import { getData, getJson } from "../api/client";
import { useAnswer, useNow } from "../api/hooks";
import { useLive } from "../api/stream";
import type { Incident, IncidentAnswer, Job, Topology } from "../api/types";
import { ChainDrawing } from "../chain/drawing";
import { SeverityBadge, StateBadges } from "../parts/badges";
import { JobLinks, LocationLink } from "../parts/links";
import { Loaded, Warnings } from "../parts/notes";
import { clock, duration, kindWords, nsToMs, percent } from "../lib/format";
import { href } from "../router";
import type { PageProps } from "../pages";
import { Actions } from "./incident/actions";
import { LookedAt } from "./incident/discarded";
import { EvidencePlots } from "./incident/evidence";
import { History } from "./incident/history";
import { PathOf, Senders } from "./incident/ports";
import { KernelLog } from "./incident/kernel_log";
import { WrongSettings } from "./incident/settings";

export default function IncidentPage({ of }: PageProps) {
  const { changes } = useLive();
  const name = of["id"] ?? "";
  const id = encodeURIComponent(name);
  const answer = useAnswer((signal) => getJson<IncidentAnswer>(`/api/v1/incidents/${id}`, {}, signal), [id, changes], 10_000);
  return (
    <Loaded of={answer} title={`Incident ${name}`}>
      {(value) => <Content of={value} changed={answer.again} />}
    </Loaded>
  );
}

function Content({ of, changed }: { of: IncidentAnswer; changed: () => void }) {
  const { incident } = of;
  return (
    <article>
      <h1>
        {kindWords(incident.reclassified?.kind ?? incident.kind)} at <LocationLink at={incident.root} />
      </h1>
      <p class="meta">
        <SeverityBadge severity={incident.severity} /> <StateBadges incident={incident} />
      </p>
      <p class="lead">{incident.explanation}</p>
      <p class="lead">
        <b>What to do</b> {incident.action}
        {incident.docs && (
          <>
            {" "}
            <a href={href(`/docs/${incident.docs}`)}>{incident.docs.startsWith("runbooks/") ? "Runbook" : "How it is judged"}</a>
          </>
        )}
      </p>
      <WrongSettings incident={incident} />
      <KernelLog incident={incident} />
      <div class="columns">
        <Facts incident={incident} />
        <Actions incident={incident} changed={changed} />
      </div>
      <Chain incident={incident} />
      <PathOf incident={incident} />
      <Senders incident={incident} />
      <Warnings texts={of.warnings} />
      <EvidencePlots of={of} />
      <LookedAt incident={incident} />
      <History incident={incident} />
    </article>
  );
}

function Facts({ incident }: { incident: Incident }) {
  const now = useNow(1000);
  const ms = nsToMs(incident.start_ns);
  const lasts = duration(((incident.end_ns === null ? now : nsToMs(incident.end_ns)) - ms) / 1000);
  const delay = duration(nsToMs(incident.detected_ns - incident.start_ns) / 1000);
  const low = Object.entries(incident.low_before ?? {});
  return (
    <dl class="facts">
      <dt>Where</dt>
      <dd>
        <LocationLink at={incident.root} />
        {incident.priorities && `, priority ${incident.priorities.join(", ")}`}
        {" · "}
        <a href={href("/fabric", { time: String(Math.round(ms / 1000) + 5), signal: "pause_sent" })}>the fabric at that time</a>
      </dd>
      <dt>Since</dt>
      <dd>
        <time dateTime={new Date(ms).toISOString()}>{clock(ms)}</time>, detected after {delay};{" "}
        {incident.end_ns === null ? `lasts for ${lasts}` : `lasted ${lasts}`}
      </dd>
      <dt>Confidence</dt>
      <dd>{percent(incident.confidence)}</dd>
      <dt>Culprit jobs</dt>
      <dd>
        <JobLinks names={incident.culprit_jobs} none="none is accused" />
      </dd>
      <dt>Victim jobs</dt>
      <dd>
        <JobLinks names={incident.victim_jobs} none="no job loses throughput" />
      </dd>
      {low.length > 0 && (
        <>
          <dt>Slow before it</dt>
          <dd>{low.map(([job, share]) => `job ${job} moved ${percent(share)} of its baseline`).join(", ")}</dd>
        </>
      )}
      {incident.recurrences > 0 && (
        <>
          <dt>Recurs</dt>
          <dd>
            {incident.recurrences} times before
            {incident.recurrence_of && (
              <>
                , first as <IncidentLink id={incident.recurrence_of} />
              </>
            )}
          </dd>
        </>
      )}
      {incident.merged_into && (
        <>
          <dt>Part of</dt>
          <dd>
            <IncidentLink id={incident.merged_into} />
          </dd>
        </>
      )}
      <dt>Id</dt>
      <dd>
        <code>{incident.id}</code>
      </dd>
    </dl>
  );
}

function IncidentLink({ id }: { id: string }) {
  return <a href={href(`/incidents/${encodeURIComponent(id)}`)}>{id}</a>;
}

/** Victim jobs whose hosts are looked up. */
const JOBS = 6;

function Chain({ incident }: { incident: Incident }) {
  const jobs = incident.victim_jobs.slice(0, JOBS);
  const answer = useAnswer(
    async (signal) => {
      const time = Math.floor(nsToMs(incident.start_ns) / 1000);
      const topology = await getData<Topology>("/api/v1/topology", { time }, signal);
      const victims = await Promise.all(
        jobs.map(async (job) => {
          const at = job.indexOf("/");
          const cluster = at > 0 ? job.slice(0, at) : undefined;
          const path = `/api/v1/jobs/${encodeURIComponent(job.slice(at + 1))}`;
          const hosts = await getData<Job>(path, { cluster }, signal).then((of) => Object.keys(of.hosts), () => []);
          return { job, hosts };
        }),
      );
      return { links: topology.links, victims };
    },
    [incident.start_ns, jobs.join("\n")],
  );
  return <Loaded of={answer}>{(value) => <ChainDrawing incident={incident} {...value} />}</Loaded>;
}
