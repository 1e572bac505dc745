/** Lines over time, drawn by uPlot. */

import uPlot from "uplot";
import { useEffect, useRef } from "preact/hooks";
import { inUnit } from "../lib/format";
import { color } from "../theme";
import { align, highest, type Line } from "./series";

/** Most lines of a plot; more cannot be told apart. */
const LINES = 12;
const COLORS = 8;

export interface Threshold {
  readonly value: number;
  readonly name: string;
}

/** A time that is marked, such as that of an incident; Unix s. */
export interface Span {
  readonly from: number;
  readonly to: number;
}

export interface PlotProps {
  readonly title: string;
  readonly unit: string;
  readonly lines: readonly Line[];
  readonly thresholds?: readonly Threshold[];
  readonly span?: Span;
  readonly height?: number;
  /** A value that the scale reaches in any case. */
  readonly top?: number;
  /** Plots with the same name show the same moment under the pointer. */
  readonly sync?: string;
}

export function Plot(props: PlotProps) {
  const holder = useRef<HTMLDivElement>(null);
  useEffect(() => {
    const element = holder.current;
    if (!element) return;
    let plot: uPlot | undefined;
    const draw = () => {
      plot?.destroy();
      plot = new uPlot(options(props, element.clientWidth), data(props), element);
    };
    draw();
    const resized = new ResizeObserver(() => plot?.setSize({ width: element.clientWidth, height: props.height ?? 180 }));
    resized.observe(element);
    window.addEventListener("themechange", draw);
    return () => {
      resized.disconnect();
      window.removeEventListener("themechange", draw);
      plot?.destroy();
    };
  }, [props.lines, props.thresholds, props.span?.from, props.span?.to, props.unit, props.height, props.top]);
  const left = props.lines.length - LINES;
  return (
    <figure class="plot">
      <figcaption>
        {props.title}
        {left > 0 && <span class="soft"> · the {LINES} highest of {props.lines.length}</span>}
      </figcaption>
      {props.lines.length === 0 ? <p class="note">No samples in this time.</p> : <div ref={holder} />}
    </figure>
  );
}

function data(props: PlotProps): uPlot.AlignedData {
  const { times, values } = align(highest(props.lines, LINES));
  return [times, ...values];
}

function options(props: PlotProps, width: number): uPlot.Options {
  const axis = { stroke: color("soft-text"), grid: { stroke: color("line"), width: 1 }, ticks: { stroke: color("line") } };
  const shown = highest(props.lines, LINES);
  const top = Math.max(props.top ?? 0, ...(props.thresholds ?? []).map((threshold) => threshold.value));
  return {
    width,
    height: props.height ?? 180,
    cursor: { y: false, ...(props.sync ? { sync: { key: props.sync } } : {}) },
    legend: { live: true },
    scales: { y: { range: (_, low, high) => [Math.min(0, low), Math.max(high, top) * 1.08 || 1] } },
    axes: [
      { ...axis, values: axisTimes, space: 75 },
      { ...axis, size: 72, values: (_, splits) => splits.map((value) => inUnit(value, props.unit)) },
    ],
    series: [
      { label: "time", value: (_, time) => (time === null ? "" : new Date(time * 1000).toLocaleTimeString()) },
      ...shown.map((line, at) => ({
        label: line.name || "value",
        stroke: color(`line-${(at % COLORS) + 1}`),
        width: 1.5,
        points: { show: line.times.length < 3 },
        spanGaps: false,
        value: (_: uPlot, value: number | null) => (value === null ? "–" : inUnit(value, props.unit)),
      })),
    ],
    hooks: { drawClear: [(plot) => drawMarks(plot, props)], draw: [(plot) => drawThresholds(plot, props)] },
  };
}

function axisTimes(_: uPlot, splits: number[], _axis: number, _space: number, step: number): string[] {
  const style: Intl.DateTimeFormatOptions =
    step >= 86_400
      ? { month: "short", day: "numeric" }
      : { hour: "2-digit", minute: "2-digit", hour12: false, ...(step < 60 ? { second: "2-digit" as const } : {}) };
  const format = new Intl.DateTimeFormat(undefined, style);
  return splits.map((time) => format.format(time * 1000));
}

/** Shades the marked time. */
function drawMarks(plot: uPlot, { span }: PlotProps): void {
  if (!span) return;
  const { ctx, bbox } = plot;
  const from = Math.max(bbox.left, plot.valToPos(span.from, "x", true));
  const to = Math.min(bbox.left + bbox.width, plot.valToPos(span.to, "x", true));
  ctx.save();
  ctx.fillStyle = color("mark");
  ctx.fillRect(from, bbox.top, Math.max(0, to - from), bbox.height);
  ctx.restore();
}

function drawThresholds(plot: uPlot, { thresholds = [], unit }: PlotProps): void {
  const { ctx, bbox } = plot;
  const ratio = window.devicePixelRatio || 1;
  ctx.save();
  ctx.strokeStyle = ctx.fillStyle = color("bad");
  ctx.font = `${11 * ratio}px system-ui, sans-serif`;
  ctx.textAlign = "right";
  ctx.setLineDash([5 * ratio, 4 * ratio]);
  for (const { value, name } of thresholds) {
    const y = plot.valToPos(value, "y", true);
    ctx.beginPath();
    ctx.moveTo(bbox.left, y);
    ctx.lineTo(bbox.left + bbox.width, y);
    ctx.stroke();
    ctx.fillText(`${name} ${inUnit(value, unit)}`, bbox.left + bbox.width - 4 * ratio, y - 4 * ratio);
  }
  ctx.restore();
}
