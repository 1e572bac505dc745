/** Paints the fabric on a canvas, and finds what is under the pointer. */

import { heatStep, stepColor, STEPS, type Heat } from "./heat";
import type { Layout, PlacedLink, PlacedNode } from "./layout";

/** How the drawing is moved: x on the screen is `x * zoom + shift`. */
export interface View {
  readonly zoom: number;
  readonly shift: number;
}

export interface Colors {
  readonly text: string;
  readonly line: string;
  readonly box: string;
  readonly chosen: string;
}

/** What is under the pointer. */
export interface Hit {
  readonly node: PlacedNode;
  /** A port of it, if the pointer is on one. */
  readonly port?: string;
}

/** A layout with the heat of its ports and cables, computed once for all views of it. */
export class Scene {
  readonly nodes: readonly { readonly node: PlacedNode; readonly steps: readonly (number | undefined)[] }[];
  /** Cables by the step of their hotter end, so that each color is drawn at once. */
  readonly links: readonly (readonly PlacedLink[])[];

  constructor(
    readonly layout: Layout,
    heat: Heat,
  ) {
    const step = (value: number | undefined) => (value === undefined ? undefined : heatStep(heat.share(value)));
    const steps = new Map<string, readonly (number | undefined)[]>();
    for (const { name, ports } of layout.nodes.values()) steps.set(name, ports.map((port) => step(heat.at(name, port))));
    this.nodes = [...layout.nodes.values()].map((node) => ({ node, steps: steps.get(node.name) ?? [] }));
    const links: PlacedLink[][] = Array.from({ length: STEPS }, () => []);
    for (const link of layout.links) {
      const ends = [steps.get(link.low.name)?.[link.lowAt], steps.get(link.high.name)?.[link.highAt]];
      links[Math.max(...ends.map((end) => end ?? 0))]?.push(link);
    }
    this.links = links;
  }
}

/** Room of a node on the screen below which hosts are columns of a heat map and calm cables are left out, px. */
const FAR = 14;
/** Most cables that are drawn: more are a surface, and take too long. */
const LINES = 1500;
const BOX = 26;
/** Height of the arcs within a group of a dragonfly, and the least of those between groups, px. */
const LOCAL = 30;
const GLOBAL = 70;
const TOP = 44;
/** Height of a port's cell of a host, px. */
const CELL = 9;

/** Whether a cable joins two routers of one group. */
function isLocal({ low, high }: PlacedLink): boolean {
  return low.group !== undefined && low.group === high.group;
}

export class Painter {
  constructor(
    private readonly scene: Scene,
    private readonly view: View,
    private readonly height: number,
    private readonly marked: ReadonlySet<string>,
  ) {}

  private x(of: number): number {
    return of * this.view.zoom + this.view.shift;
  }

  private isFar(node: PlacedNode): boolean {
    return node.room * this.view.zoom < FAR;
  }

  /** Top of a level's boxes. */
  private y(level: number): number {
    const levels = Math.max(1, this.scene.layout.levels - 1);
    const below = this.height - TOP - BOX - 8 * CELL;
    return TOP + ((levels - level) / levels) * below;
  }

  private width(node: PlacedNode): number {
    const room = node.room * this.view.zoom;
    return Math.max(1, Math.min(110, room - (room < FAR ? 0 : 6)));
  }

  /** Where the cable of a port begins. */
  private portX(node: PlacedNode, at: number): number {
    const width = this.width(node);
    return this.x(node.x) - width / 2 + ((at + 0.5) / Math.max(1, node.ports.length)) * width;
  }

  paint(context: CanvasRenderingContext2D, width: number, colors: Colors): void {
    context.clearRect(0, 0, width, this.height);
    this.paintGroups(context, colors, width);
    const visible = this.visible(width);
    // Many cables are drawn finer, except the hot ones, which must be seen.
    const crowd = Math.min(1, 300 / Math.max(1, visible.reduce((sum, links) => sum + links.length, 0)));
    visible.forEach((links, step) => {
      const share = step / (STEPS - 1);
      const fine = share > 0.75 ? 1 : 0.25 + 0.75 * crowd;
      context.strokeStyle = stepColor(step);
      context.globalAlpha = (0.25 + 0.75 * share) * fine;
      context.lineWidth = (0.8 + 2.5 * share) * fine;
      for (const link of links) this.paintLink(context, link);
    });
    context.globalAlpha = 1;
    for (const { node, steps } of this.scene.nodes) this.paintNode(context, node, steps, colors, width);
  }

  /** The blocks of a dragonfly, behind everything else. */
  private paintGroups(context: CanvasRenderingContext2D, colors: Colors, width: number): void {
    const top = this.y(1) - LOCAL;
    for (const { name, x, room } of this.scene.layout.groups) {
      const [left, wide] = [this.x(x - room / 2), room * this.view.zoom];
      if (left > width || left + wide < 0) continue;
      context.strokeStyle = colors.line;
      context.lineWidth = 1;
      context.beginPath();
      context.roundRect(left - 3, top, wide + 6, this.height - top - 6, 6);
      context.stroke();
      if (wide < 50) continue;
      context.fillStyle = colors.text;
      context.font = "12px system-ui, sans-serif";
      context.textAlign = "left";
      // At the edge of the view, while the beginning of a wide block is outside of it.
      context.fillText(name, Math.max(left, 0) + 5, top + 14, wide - 8);
    }
  }

  /** Cables in view by step: the hottest, at most LINES. Cables of hosts that are columns, and those within a group whose routers
   * are, are left out unless they are hot. */
  private visible(width: number): PlacedLink[][] {
    const chosen: PlacedLink[][] = Array.from({ length: STEPS }, () => []);
    let left = LINES;
    for (let step = STEPS - 1; step >= 0 && left > 0; step -= 1) {
      const isCalm = step < STEPS * 0.75;
      for (const link of this.scene.links[step] ?? []) {
        const [a, b] = [this.x(link.low.x), this.x(link.high.x)];
        if (Math.max(a, b) < 0 || Math.min(a, b) > width) continue;
        if (isCalm && this.isFar(link.low) && (link.low.isHost || isLocal(link))) continue;
        chosen[step]?.push(link);
        left -= 1;
        if (left === 0) break;
      }
    }
    return chosen;
  }

  private paintLink(context: CanvasRenderingContext2D, link: PlacedLink): void {
    const { low, lowAt, high, highAt } = link;
    const [x1, x2, y] = [this.portX(low, lowAt), this.portX(high, highAt), this.y(low.level)];
    context.beginPath();
    context.moveTo(x1, y);
    if (low.level === high.level) {
      // The curve reaches half the height of its control point; the longest arcs end below the upper edge.
      const highest = Math.max(LOCAL, 2 * (y - 8));
      const rise = isLocal(link) ? LOCAL : Math.min(highest, GLOBAL + Math.abs(x2 - x1) / 2);
      context.quadraticCurveTo((x1 + x2) / 2, y - rise, x2, y);
    }
    else context.lineTo(x2, this.y(high.level) + BOX);
    context.stroke();
  }

  private paintNode(
    context: CanvasRenderingContext2D,
    node: PlacedNode,
    steps: readonly (number | undefined)[],
    colors: Colors,
    width: number,
  ): void {
    const [x, y, w] = [this.x(node.x), this.y(node.level), this.width(node)];
    if (x + w < 0 || x - w > width) return;
    const isFar = this.isFar(node);
    const isMarked = this.marked.has(node.name);
    if (!isFar) {
      context.fillStyle = colors.box;
      context.strokeStyle = isMarked ? colors.chosen : colors.line;
      context.lineWidth = isMarked ? 2.5 : 1;
      context.beginPath();
      context.roundRect(x - w / 2, y, w, BOX, 4);
      context.fill();
      context.stroke();
    } else if (isMarked) {
      context.fillStyle = colors.chosen;
      context.fillRect(x - Math.max(w, 2) / 2, y - 6, Math.max(w, 2), 4);
    }
    const cell = w / Math.max(1, steps.length);
    steps.forEach((step, at) => {
      context.fillStyle = step === undefined ? colors.line : stepColor(step);
      if (node.isHost) context.fillRect(x - w / 2, y + (isFar ? 0 : BOX + 3) + at * CELL, w, CELL - 1);
      else context.fillRect(x - w / 2 + at * cell, y + BOX - 5, Math.max(0.5, cell - 0.5), 5);
    });
    if (w >= 34) {
      context.fillStyle = colors.text;
      context.font = "12px system-ui, sans-serif";
      context.textAlign = "center";
      context.fillText(node.name, x, y + (node.isHost ? 17 : 15), w - 4);
    }
  }

  /** What is at a point of the canvas. */
  hit(x: number, y: number): Hit | undefined {
    for (const { node } of this.scene.nodes) {
      const [left, top, w] = [this.x(node.x) - this.width(node) / 2, this.y(node.level), this.width(node)];
      if (x < left || x > left + w) continue;
      const cells = node.isHost ? top + (this.isFar(node) ? 0 : BOX + 3) : top + BOX - 5;
      const bottom = node.isHost ? cells + node.ports.length * CELL : top + BOX;
      if (y < top || y > bottom) continue;
      const at = node.isHost ? Math.floor((y - cells) / CELL) : Math.floor(((x - left) / w) * node.ports.length);
      const port = y >= cells ? node.ports[at] : undefined;
      return port === undefined ? { node } : { node, port };
    }
    return undefined;
  }
}
