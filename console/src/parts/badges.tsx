/** Severity and state, by color and word. */

import type { Incident, Severity } from "../api/types";

const WORDS: Readonly<Record<Severity, string>> = {
  critical: "critical",
  warning: "warning",
  info: "observation",
};

export function SeverityBadge({ severity }: { severity: Severity }) {
  return <span class={`badge ${severity}`}>{WORDS[severity]}</span>;
}

export function StateBadges({ incident }: { incident: Incident }) {
  return (
    <>
      <span class={`badge ${incident.state}`}>{incident.state}</span>
      {incident.acknowledged && <span class="badge">acknowledged</span>}
      {incident.silenced && <span class="badge">silenced</span>}
      {incident.reclassified && <span class="badge">reclassified</span>}
    </>
  );
}

/** A share as a bar with its text. */
export function Bar({ share, text, kind }: { share: number; text: string; kind?: "good" | "bad" }) {
  const width = `${Math.max(0, Math.min(1, share)) * 100}%`;
  return (
    <span class={`bar ${kind ?? ""}`}>
      <span class="fill" style={{ width }} />
      <span class="text">{text}</span>
    </span>
  );
}

export function Tile({ value, label, kind, href }: { value: string; label: string; kind?: string | undefined; href?: string }) {
  const inside = (
    <>
      <b>{value}</b>
      <span>{label}</span>
    </>
  );
  const name = `tile ${kind ?? ""}`;
  return href ? (
    <a class={name} href={href}>
      {inside}
    </a>
  ) : (
    <div class={name}>{inside}</div>
  );
}
