/** The drawing of the fabric: zoom by wheel or buttons, move by dragging, click to a port. */

import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import type { Topology } from "../api/types";
import { inUnit } from "../lib/format";
import { go, href } from "../router";
import { color } from "../theme";
import type { Heat } from "./heat";
import { layOut } from "./layout";
import { Painter, Scene, type Hit, type View } from "./painter";

const HEIGHT = 460;
const ZOOM_STEP = 1.3;
const MOST_ZOOM = 400;

/** Zooms around a point of the screen, and keeps the drawing within the view. */
export function zoomed(view: View, by: number, at: number, width: number): View {
  const zoom = Math.max(1, Math.min(MOST_ZOOM, view.zoom * by));
  return kept({ zoom, shift: at - ((at - view.shift) / view.zoom) * zoom }, width);
}

/** The view, moved so that no empty room is at its sides. */
export function kept({ zoom, shift }: View, width: number): View {
  return { zoom, shift: Math.min(0, Math.max(width - width * zoom, shift)) };
}

export function FabricDrawing(props: { topology: Topology; heat: Heat; marked: ReadonlySet<string> }) {
  const { topology, heat, marked } = props;
  const canvas = useRef<HTMLCanvasElement>(null);
  const [width, setWidth] = useState(0);
  const [view, setView] = useState<View>({ zoom: 1, shift: 0 });
  const [hit, setHit] = useState<Hit & { x: number; y: number }>();
  const [theme, setTheme] = useState(0);
  const layout = useMemo(() => layOut(topology, Math.max(1, width)), [topology, width]);
  const scene = useMemo(() => new Scene(layout, heat), [layout, heat]);
  const painter = useMemo(() => new Painter(scene, view, HEIGHT, marked), [scene, view, marked]);

  useEffect(() => {
    const element = canvas.current?.parentElement;
    if (!element) return;
    const resized = new ResizeObserver(() => setWidth(element.clientWidth));
    resized.observe(element);
    const changed = () => setTheme((n) => n + 1);
    window.addEventListener("themechange", changed);
    return () => {
      resized.disconnect();
      window.removeEventListener("themechange", changed);
    };
  }, []);

  useEffect(() => {
    const context = canvas.current?.getContext("2d");
    if (!canvas.current || !context || width === 0) return;
    const ratio = window.devicePixelRatio || 1;
    canvas.current.width = width * ratio;
    canvas.current.height = HEIGHT * ratio;
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    painter.paint(context, width, {
      text: color("text"),
      line: color("line-strong"),
      box: color("card"),
      chosen: color("bad"),
    });
  }, [painter, width, theme]);

  useEffect(() => {
    const element = canvas.current;
    if (!element) return;
    // React-style wheel handlers are passive; this one keeps the page from scrolling while it zooms.
    const wheel = (event: WheelEvent) => {
      if (!event.ctrlKey && !event.shiftKey && view.zoom === 1 && event.deltaY > 0) return;
      event.preventDefault();
      setView((before) => zoomed(before, event.deltaY < 0 ? ZOOM_STEP : 1 / ZOOM_STEP, event.offsetX, width));
    };
    element.addEventListener("wheel", wheel, { passive: false });
    return () => element.removeEventListener("wheel", wheel);
  }, [width, view.zoom]);

  const drag = useDrag((by) => setView((before) => kept({ ...before, shift: before.shift + by }, width)));
  const zoom = (by: number) => setView((before) => zoomed(before, by, width / 2, width));
  return (
    <div class="fabric">
      <div class="zoom" role="group" aria-label="Zoom">
        <button onClick={() => zoom(ZOOM_STEP)} aria-label="Zoom in">
          +
        </button>
        <button onClick={() => zoom(1 / ZOOM_STEP)} aria-label="Zoom out">
          −
        </button>
        <button onClick={() => setView({ zoom: 1, shift: 0 })}>whole fabric</button>
      </div>
      <canvas
        ref={canvas}
        role="img"
        aria-label={`Topology: ${topology.nodes.length} nodes, ${topology.links.length} cables. The list below has the hottest ports.`}
        style={{ height: `${HEIGHT}px`, cursor: hit ? "pointer" : view.zoom > 1 ? "grab" : "default" }}
        {...drag.handlers}
        onPointerMove={(event) => {
          drag.handlers.onPointerMove(event);
          const found = painter.hit(event.offsetX, event.offsetY);
          setHit(found && { ...found, x: event.offsetX, y: event.offsetY });
        }}
        onPointerLeave={() => setHit(undefined)}
        onClick={(event) => {
          const found = drag.moved() ? undefined : painter.hit(event.offsetX, event.offsetY);
          if (found) go(target(found));
        }}
      />
      {hit && <Tip hit={hit} heat={heat} width={width} />}
    </div>
  );
}

function target({ node, port }: Hit): string {
  if (port === undefined) return href("/ports", { node: node.name });
  return href(`/ports/${encodeURIComponent(node.name)}/${port.split("/").map(encodeURIComponent).join("/")}`);
}

function Tip({ hit, heat, width }: { hit: Hit & { x: number; y: number }; heat: Heat; width: number }) {
  const value = hit.port === undefined ? undefined : heat.at(hit.node.name, hit.port);
  const style = { left: `${Math.min(hit.x + 12, width - 220)}px`, top: `${hit.y + 12}px` };
  return (
    <div class="tip" style={style} aria-hidden="true">
      <b>{hit.node.name}</b> {hit.port}
      {hit.port !== undefined && <div>{value === undefined ? "no value" : inUnit(value, heat.unit)}</div>}
    </div>
  );
}

/** Dragging by pointer; `moved` says whether the last press was a drag. */
function useDrag(onDrag: (by: number) => void) {
  const state = useRef({ down: false, last: 0, total: 0 });
  return {
    moved: () => state.current.total > 4,
    handlers: {
      onPointerDown: (event: PointerEvent) => {
        state.current = { down: true, last: event.clientX, total: 0 };
      },
      onPointerMove: (event: PointerEvent) => {
        if (!state.current.down || event.buttons === 0) return;
        const by = event.clientX - state.current.last;
        state.current = { down: true, last: event.clientX, total: state.current.total + Math.abs(by) };
        onDrag(by);
      },
      onPointerUp: () => {
        state.current.down = false;
      },
    },
  };
}
