/** Links to what the console shows: nodes, ports, jobs, incidents, queries. */

import type { ComponentChildren } from "preact";
import type { Location } from "../api/types";
import { rememberQuery } from "../lib/asked";
import { href } from "../router";

export function NodeLink({ node }: { node: string }) {
  return <a href={href("/ports", { node })}>{node}</a>;
}

export function PortLink({ node, port, short }: { node: string; port: string; short?: boolean }) {
  const path = `/ports/${encodeURIComponent(node)}/${port.split("/").map(encodeURIComponent).join("/")}`;
  return (
    <a class="port" href={href(path)}>
      {short ? port : `${node} ${port}`}
    </a>
  );
}

/** A port (`mlx5_0/1`), or a device (`mlx5_0`), which has no page of its own. */
export function PortOrDeviceLink({ node, port }: { node: string; port: string }) {
  if (port.includes("/")) return <PortLink node={node} port={port} />;
  return (
    <>
      <NodeLink node={node} /> {port}
    </>
  );
}

/** A job by the name that incidents use: `4711`, or `west/4711` where the collector serves several clusters. */
export function JobLink({ name, children }: { name: string; children?: ComponentChildren }) {
  const path = name.split("/").map(encodeURIComponent).join("/");
  return <a href={href(`/jobs/${path}`)}>{children ?? name}</a>;
}

export function JobLinks({ names, none }: { names: readonly string[]; none: string }) {
  if (names.length === 0) return <span class="soft">{none}</span>;
  return (
    <>
      {names.slice(0, SHOWN).map((name, at) => (
        <span key={name}>
          {at > 0 && ", "}
          <JobLink name={name} />
        </span>
      ))}
      {names.length > SHOWN && ` and ${names.length - SHOWN} more`}
    </>
  );
}

/** Jobs of a list that are written out. */
const SHOWN = 8;

export function LocationLink({ at }: { at: Location }) {
  switch (at.type) {
    case "port":
      return <PortLink node={at.node} port={at.port} />;
    case "link":
      return (
        <>
          <PortLink node={at.a} port={at.a_port} /> – <PortLink node={at.b} port={at.b_port} />
        </>
      );
    case "switch":
    case "host":
      return <NodeLink node={at.node} />;
    case "job":
      return (
        <>
          job <JobLink name={at.job} />
        </>
      );
    case "fabric":
      return <>the fabric</>;
  }
}

export function locationText(at: Location): string {
  switch (at.type) {
    case "port":
      return `${at.node} ${at.port}`;
    case "link":
      return `${at.a} ${at.a_port} – ${at.b} ${at.b_port}`;
    case "switch":
    case "host":
      return at.node;
    case "job":
      return `job ${at.job}`;
    case "fabric":
      return "the fabric";
  }
}

/** A link of the console that opens a query in Explore, where it runs at once: it is no link of somebody else. */
export function QueryLink({ query, children }: { query: string; children: ComponentChildren }) {
  return (
    <a href={href("/explore", { q: query })} onClick={() => rememberQuery(query)}>
      {children}
    </a>
  );
}
