import type { SufferingJob } from "../../api/types";
import { Bar } from "../../parts/badges";
import { JobLink } from "../../parts/links";
import { bitRate, clock, percent } from "../../lib/format";

/** Victims of open incidents, and how much less they send than before. */
export function SufferingJobs({ jobs }: { jobs: readonly SufferingJob[] }) {
  return (
    <section>
      <h2>Jobs that suffer</h2>
      {jobs.length === 0 && <p class="soft">None.</p>}
      <ul class="plain">
        {jobs.map((job) => (
          <li key={`${job.cluster}/${job.id}`}>
            <JobLink name={job.cluster ? `${job.cluster}/${job.id}` : job.id}>
              {job.id} {job.name}
            </JobLink>{" "}
            <span class="soft">
              {job.user} · {job.hosts} hosts · since {clock(job.since_ms)}
            </span>
            <Loss job={job} />
          </li>
        ))}
      </ul>
    </section>
  );
}

function Loss({ job }: { job: SufferingJob }) {
  const { bytes_per_second: now, bytes_per_second_before: before } = job;
  if (now === null || before === null || before <= 0) return <p class="soft">Its traffic is not measured.</p>;
  const part = job.measured_hosts < job.hosts ? ` (${job.measured_hosts} of its hosts)` : "";
  const text = `sends ${bitRate(now)}${part}, ${percent(now / before)} of the ${bitRate(before)} before`;
  return <Bar share={now / before} text={text} kind={now < 0.9 * before ? "bad" : "good"} />;
}
