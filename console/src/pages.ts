/** The table of pages: a page is a row. The collector answers each path with the same file (`collector/console/src/lib.rs`). */

import type { FunctionComponent } from "preact";
import { match } from "./router";

/** Values of the variables of a page's path. */
export interface PageProps {
  readonly of: Readonly<Record<string, string>>;
}

interface Page {
  /** Pattern of `match` in `router.ts`. */
  readonly path: string;
  readonly title: (of: PageProps["of"]) => string;
  /** Word and key of the navigation; pages of one thing have none. */
  readonly nav?: { readonly word: string; readonly key: string };
  readonly load: () => Promise<{ default: FunctionComponent<PageProps> }>;
}

export const PAGES: readonly Page[] = [
  {
    path: "/",
    title: () => "Overview",
    nav: { word: "Overview", key: "o" },
    load: () => import("./pages/overview"),
  },
  {
    path: "/incidents",
    title: () => "Incidents",
    nav: { word: "Incidents", key: "i" },
    load: () => import("./pages/incidents"),
  },
  { path: "/incidents/:id", title: (of) => `Incident ${of["id"]}`, load: () => import("./pages/incident") },
  { path: "/jobs", title: () => "Jobs", nav: { word: "Jobs", key: "j" }, load: () => import("./pages/jobs") },
  { path: "/jobs/:id", title: (of) => `Job ${of["id"]}`, load: () => import("./pages/job") },
  { path: "/jobs/:cluster/:id", title: (of) => `Job ${of["cluster"]}/${of["id"]}`, load: () => import("./pages/job") },
  { path: "/compare", title: () => "Two runs", load: () => import("./pages/compare") },
  { path: "/fabric", title: () => "Fabric", nav: { word: "Fabric", key: "f" }, load: () => import("./pages/fabric") },
  { path: "/ports", title: () => "Ports", nav: { word: "Ports", key: "p" }, load: () => import("./pages/ports") },
  { path: "/ports/:node/:port*", title: (of) => `${of["node"]} ${of["port"]}`, load: () => import("./pages/port") },
  { path: "/audit", title: () => "Audit", nav: { word: "Audit", key: "a" }, load: () => import("./pages/audit") },
  { path: "/explore", title: () => "Explore", nav: { word: "Explore", key: "e" }, load: () => import("./pages/explore") },
  { path: "/status", title: () => "Status", nav: { word: "Status", key: "s" }, load: () => import("./pages/status") },
  { path: "/docs/:page*", title: (of) => `${of["page"]}`, load: () => import("./pages/doc") },
];

/** The page of a path, with the values of its variables. */
export function pageOf(path: string): { page: Page; of: PageProps["of"] } | undefined {
  for (const page of PAGES) {
    const of = match(page.path, path);
    if (of) return { page, of };
  }
  return undefined;
}
