/** Two runs side by side. The URL holds both; without the second it is the run before of the same job, name or user. */

import { useEffect } from "preact/hooks";
import { getJson } from "../api/client";
import { useAnswer, type Answer } from "../api/hooks";
import type { Envelope, Job, Report } from "../api/types";
import { candidates, differences, nameOf, parseRun, rails, type Difference, type Run } from "../jobs/compare";
import { clock, duration, kindWords, nsToMs, percent } from "../lib/format";
import { JobLink, NodeLink } from "../parts/links";
import { Loaded, Note } from "../parts/notes";
import { href, setParams, usePlace } from "../router";
import { TrafficPlot } from "./job/report";

/** Runs that are offered to compare with. */
const OFFERED = 50;

function useReport(of: Run | undefined): Answer<Report | undefined> {
  return useAnswer(
    async (signal) => {
      if (!of) return undefined;
      const params = { cluster: of.cluster, run: of.run, format: "json" };
      return getJson<Report>(`/api/v1/jobs/${encodeURIComponent(of.id)}/report`, params, signal);
    },
    [of && nameOf(of), of?.run],
  );
}

export default function Compare() {
  const { params } = usePlace();
  const [a, b] = (["a", "b"] as const).map((side) => parseRun(params.get(side), params.get(`${side}_run`)));
  const [first, second] = [useReport(a), useReport(b)];
  const user = first.value?.job.user;
  const others = useAnswer(
    async (signal) => {
      if (user === undefined || !first.value) return [];
      const jobs = await getJson<Envelope<readonly Job[]>>("/api/v1/jobs", { user: user || undefined, limit: 1000 }, signal);
      return candidates(jobs.data, first.value.job).slice(0, OFFERED);
    },
    [user, first.value && nameOf(first.value.job), first.value?.job.run],
  );
  const offered = first.value ? others.value : undefined;
  const chosen = offered?.[0];
  useEffect(() => {
    if (!b && chosen) setParams({ b: nameOf(chosen), b_run: String(chosen.run) });
  }, [b, chosen]);
  return (
    <>
      <h1>Two runs</h1>
      <form class="filters" onSubmit={(event) => event.preventDefault()}>
        <JobFilter label="Job" name="a" />
        <JobFilter label="Compared with" name="b" />
        {offered && offered.length > 0 && <Offers all={offered} b={b} />}
      </form>
      {!a && <Note>Name a job, or open one and choose "compare with another run".</Note>}
      {a && !b && offered?.length === 0 && <Note>The same user has no other run that is known; name one.</Note>}
      <Loaded of={first}>{() => null}</Loaded>
      {b && <Loaded of={second}>{() => null}</Loaded>}
      {first.value && second.value && <Both a={first.value} b={second.value} />}
    </>
  );
}

/** A job by name; its last run, unless a link named another. */
function JobFilter({ label, name }: { label: string; name: "a" | "b" }) {
  const value = usePlace().params.get(name) ?? "";
  return (
    <label class="filter">
      {label}
      <input
        type="search"
        value={value}
        placeholder="4711"
        spellcheck={false}
        onChange={(event) => setParams({ [name]: event.currentTarget.value.trim(), [`${name}_run`]: undefined })}
      />
    </label>
  );
}

/** Other runs of the same user. */
function Offers({ all, b }: { all: readonly Job[]; b: Run | undefined }) {
  const value = all.findIndex((job) => b && nameOf(job) === nameOf(b) && (b.run === undefined || job.run === b.run));
  return (
    <label class="filter">
      Other runs of {all[0]?.user || "the same user"}
      <select
        value={String(value)}
        onChange={(event) => {
          const job = all[Number(event.currentTarget.value)];
          if (job) setParams({ b: nameOf(job), b_run: String(job.run) });
        }}
      >
        {value < 0 && <option value="-1">choose</option>}
        {all.map((job, n) => (
          <option key={`${nameOf(job)} ${job.run}`} value={String(n)}>
            {nameOf(job)}
            {job.run > 1 && ` run ${job.run}`} {job.name}, {clock(nsToMs(job.start_ns))}
          </option>
        ))}
      </select>
    </label>
  );
}

function Both({ a, b }: { a: Report; b: Report }) {
  const highest = (of: Report) => Math.max(0, ...of.traffic.plot.lines.flatMap(({ points }) => points.map((value) => value ?? 0)));
  const top = Math.max(highest(a), highest(b));
  return (
    <>
      <Differences title="What differs" first="Quantity" rows={differences(a, b)} a={a} b={b} />
      <Differences title="Rate of a port by rail" first="Rail" rows={rails(a, b)} a={a} b={b} />
      <div class="columns">
        {[a, b].map((of, n) => (
          <section key={n}>
            <h2>
              <RunLink of={of} />
            </h2>
            <p class="soft">
              {of.job.name} {of.job.user && `of ${of.job.user}`} since {clock(nsToMs(of.range.start_ns))}, for{" "}
              {duration((of.range.end_ns - of.range.start_ns) / 1e9)}
            </p>
            <TrafficPlot of={of} top={top} />
            <Points of={of} />
            <Ports of={of} />
          </section>
        ))}
      </div>
    </>
  );
}

function RunLink({ of: { job } }: { of: Report }) {
  return (
    <>
      <JobLink name={nameOf(job)} />
      {job.run > 1 && ` run ${job.run}`}
    </>
  );
}

function Differences(props: { title: string; first: string; rows: readonly Difference[]; a: Report; b: Report }) {
  const { title, first, rows, a, b } = props;
  if (rows.length === 0) return null;
  return (
    <section>
      <h2>{title}</h2>
      <div class="table" role="region" aria-label={title} tabIndex={0}>
        <table>
          <thead>
            <tr>
              <th scope="col">{first}</th>
              {[a, b].map((of, n) => (
                <th key={n} scope="col" class="number">
                  <RunLink of={of} />
                </th>
              ))}
              <th scope="col" class="number">
                Change
              </th>
              <th scope="col">Is</th>
            </tr>
          </thead>
          <tbody>
            {rows.map((row) => (
              <tr key={row.name}>
                <td>{row.name}</td>
                <td class="number">{row.a}</td>
                <td class="number">{row.b}</td>
                <td class="number">{row.change}</td>
                <td>{row.verdict && <span class={`badge ${row.verdict === "worse" ? "critical" : "running"}`}>{row.verdict}</span>}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </section>
  );
}

/** Incidents that hit the run, and the cause of what it lost. */
function Points({ of }: { of: Report }) {
  const own = of.incidents.filter(({ role }) => role !== "bystander").slice(0, 8);
  return (
    <>
      <p>{of.summary.cause.text}</p>
      <ul class="plain">
        {own.map((one) => (
          <li key={one.id}>
            <a href={href(`/incidents/${encodeURIComponent(one.id)}`)}>{kindWords(one.kind)}</a>{" "}
            <span class="soft">
              as {one.role}, {clock(nsToMs(one.start_ns))}
            </span>
          </li>
        ))}
      </ul>
    </>
  );
}

/** Ports of the run that were held back or held others back most. */
function Ports({ of }: { of: Report }) {
  const ports = of.congestion.ports.filter(({ paused, pausing }) => Math.max(paused ?? 0, pausing ?? 0) > 0.001).slice(0, 6);
  if (ports.length === 0) return <p class="soft">No port was paused or paused its switch.</p>;
  return (
    <ul class="plain">
      {ports.map(({ host, device, paused, pausing }) => (
        <li key={`${host} ${device}`}>
          <NodeLink node={host} /> {device}{" "}
          <span class="soft">
            paused {paused === null ? "not measured" : percent(paused)}, pausing {pausing === null ? "not measured" : percent(pausing)}
          </span>
        </li>
      ))}
    </ul>
  );
}
