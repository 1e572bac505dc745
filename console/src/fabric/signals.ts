/** What ports are colored and ranked by: the signals of `/api/v1/topology/signals`. */

export interface Signal {
  readonly name: string;
  readonly words: string;
  readonly help: string;
  /** Value of the strongest color; undefined: the highest value that is shown. */
  readonly full?: number;
}

export const SIGNALS: readonly Signal[] = [
  { name: "utilization", words: "Utilization", help: "Bytes sent, as a share of the line rate", full: 1 },
  { name: "utilization_received", words: "Utilization, received", help: "Bytes received, as a share of the line rate", full: 1 },
  { name: "pause_sent", words: "Pause sent", help: "Share of time for which the port pauses its neighbor (PFC): culprits", full: 1 },
  { name: "pause_received", words: "Pause received", help: "Share of time for which the port may not send: victims", full: 1 },
  { name: "xmit_wait", words: "Waits for credits", help: "InfiniBand: share of time for which the port waits to send (XmitWait)", full: 1 },
  { name: "marks", words: "ECN marks", help: "Packets marked for congestion, per second" },
  { name: "errors", words: "Link errors", help: "Frames or symbols that arrived corrupted, per second" },
  { name: "discards", words: "Discards", help: "Packets dropped, per second" },
  { name: "up", words: "Up", help: "Whether the link is up", full: 1 },
];

export type SignalName = (typeof SIGNALS)[number]["name"];
