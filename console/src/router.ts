/** The state of the console is the URL: a path and parameters. */

import { useEffect, useState } from "preact/hooks";

/** Path below the console's base, and parameters. */
export interface Place {
  readonly path: string;
  readonly params: URLSearchParams;
}

const base = new URL(document.baseURI).pathname;

/** The place that the browser shows. */
export function here(): Place {
  const { pathname, search } = window.location;
  const path = pathname.startsWith(base) ? pathname.slice(base.length - 1) : pathname;
  return { path, params: new URLSearchParams(search) };
}

/** URL of a place, for links. Parameters that are empty or undefined are left out. */
export function href(path: string, params: Readonly<Record<string, string | undefined>> = {}): string {
  const given = Object.entries(params).filter((pair): pair is [string, string] => Boolean(pair[1]));
  const query = new URLSearchParams(given).toString();
  return base.replace(/\/$/, "") + path + (query ? `?${query}` : "");
}

/** Goes to a URL of the console. */
export function go(url: string, replace = false): void {
  if (replace) history.replaceState(null, "", url);
  else history.pushState(null, "", url);
  window.dispatchEvent(new Event("place"));
}

/** Changes parameters of the current page, and keeps the others. */
export function setParams(changed: Readonly<Record<string, string | undefined>>, replace = true): void {
  const { path, params } = here();
  go(href(path, { ...Object.fromEntries(params), ...changed }), replace);
}

/** The current place; the component is drawn again when it changes. */
export function usePlace(): Place {
  const [place, setPlace] = useState(here);
  useEffect(() => {
    const changed = () => setPlace(here());
    window.addEventListener("popstate", changed);
    window.addEventListener("place", changed);
    return () => {
      window.removeEventListener("popstate", changed);
      window.removeEventListener("place", changed);
    };
  }, []);
  return place;
}

/** Values of the variables of a pattern such as `/jobs/:id`, or undefined if a path does not match. A last variable `:name*` takes
 * the rest of the path. */
export function match(pattern: string, path: string): Record<string, string> | undefined {
  const wanted = pattern.split("/").filter(Boolean);
  const given = path.split("/").filter(Boolean).map(decodeURIComponent);
  const values: Record<string, string> = {};
  for (const [at, part] of wanted.entries()) {
    const value = given[at];
    if (value === undefined) return undefined;
    if (part.endsWith("*")) {
      values[part.slice(1, -1)] = given.slice(at).join("/");
      return values;
    }
    if (part.startsWith(":")) values[part.slice(1)] = value;
    else if (part !== value) return undefined;
  }
  return wanted.length === given.length ? values : undefined;
}

/** Lets links within the console change the place without loading the page again. */
export function followLinks(): void {
  document.addEventListener("click", (event) => {
    const plain = event.button === 0 && !event.metaKey && !event.ctrlKey && !event.shiftKey && !event.altKey;
    const link = event.target instanceof Element ? event.target.closest("a") : null;
    if (!plain || event.defaultPrevented || !link || link.target || link.hasAttribute("download")) return;
    const within = link.getAttribute("href")?.startsWith("#") ? link.getAttribute("href") : undefined;
    if (within) {
      // The page's <base> would turn it into a link to the overview.
      event.preventDefault();
      document.querySelector<HTMLElement>(within)?.focus();
      return;
    }
    const to = new URL(link.href);
    const isOwn = to.origin === window.location.origin && to.pathname.startsWith(base);
    if (!isOwn || to.pathname.slice(base.length - 1).startsWith("/api/")) return;
    // The browser scrolls to a heading of the page that it shows.
    if (to.hash && to.pathname === window.location.pathname) return;
    event.preventDefault();
    go(to.pathname + to.search + to.hash);
    window.scrollTo(0, 0);
  });
}
