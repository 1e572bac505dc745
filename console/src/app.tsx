/** The frame of every page: navigation, session, live changes, theme. */

import type { FunctionComponent } from "preact";
import { useEffect, useErrorBoundary, useState } from "preact/hooks";
import { getData } from "./api/client";
import { useAnswer } from "./api/hooks";
import { follow, useLive } from "./api/stream";
import type { Session } from "./api/types";
import { PAGES, pageOf, type PageProps } from "./pages";
import { Loaded, Note } from "./parts/notes";
import { followLinks, go, here, href, usePlace } from "./router";
import { setSession, setToken, token, useSessionChanges } from "./session";
import { SignIn } from "./signin";
import { chosenTheme, nextTheme } from "./theme";

export function App() {
  const changes = useSessionChanges();
  const session = useAnswer((signal) => getData<Session>("/api/v1/session", {}, signal), [changes]);
  useEffect(followLinks, []);
  useEffect(() => {
    // Links of earlier releases: `/?q=…` was the query box.
    const { path, params } = here();
    if (path === "/" && params.get("q")) go(href("/explore", { q: params.get("q") ?? "" }), true);
  }, []);
  if (session.value) setSession(session.value);
  const reads = session.value?.may.includes("read") ?? false;
  return (
    <>
      <a class="skip" href="#main">
        Skip to the content
      </a>
      <Header session={session.value} />
      <main id="main" tabIndex={-1}>
        <Loaded of={session}>
          {(value) => (reads ? <Outlet key={changes} /> : <SignIn session={value} refused={token() !== undefined} />)}
        </Loaded>
      </main>
    </>
  );
}

function Header({ session }: { session: Session | undefined }) {
  const { path } = usePlace();
  const [theme, setTheme] = useState(chosenTheme);
  useEffect(shortcuts, []);
  const first = `/${path.split("/")[1] ?? ""}`;
  return (
    <header>
      <a class="brand" href={href("/")} aria-label="Fabriclens, overview">
        Fabriclens
      </a>
      <nav aria-label="Pages">
        {PAGES.map(
          ({ path: to, nav }) =>
            nav && (
              <a key={to} href={href(to)} aria-current={to === first ? "page" : undefined} title={`g ${nav.key}`}>
                {nav.word}
              </a>
            ),
        )}
      </nav>
      <LiveDot reads={session?.may.includes("read") ?? false} />
      <button class="quiet" onClick={() => setTheme(nextTheme())} title="Colors: as the system has them, dark, light">
        Colors: {theme}
      </button>
      {token() && (
        <button class="quiet" onClick={() => setToken(undefined)} title={session?.caller ?? ""}>
          Sign out{session?.caller ? ` ${session.caller}` : ""}
        </button>
      )}
    </header>
  );
}

/** Follows the stream of changes while the reader may read. */
function LiveDot({ reads }: { reads: boolean }) {
  const { connected } = useLive();
  const changes = useSessionChanges();
  useEffect(() => {
    if (!reads) return undefined;
    const abort = new AbortController();
    void follow(abort.signal);
    return () => abort.abort();
  }, [reads, changes]);
  const text = connected ? "live" : "not live";
  const help = connected ? "Changes of incidents appear at once." : "No connection for changes; lists are read again now and then.";
  return (
    <span class={`live ${connected ? "on" : "off"}`} role="status" title={help}>
      {text}
    </span>
  );
}

/** The page of the current path. */
function Outlet() {
  const { path } = usePlace();
  const [loaded, setLoaded] = useState<{ path: string; Page: FunctionComponent<PageProps> }>();
  const [failed, setFailed] = useState(false);
  const [broken, mend] = useErrorBoundary();
  const found = pageOf(path);
  useEffect(() => {
    mend();
    setFailed(false);
    document.title = found ? `${found.page.title(found.of)} · Fabriclens` : "Fabriclens";
    let current = true;
    found?.page.load().then(
      ({ default: Page }) => current && setLoaded({ path: found.page.path, Page }),
      () => current && setFailed(true),
    );
    return () => {
      current = false;
    };
  }, [path]);
  if (!found) {
    return (
      <>
        <h1>Not found</h1>
        <Note bad>There is no page {path}. The navigation above lists all pages.</Note>
      </>
    );
  }
  if (failed) return <Note bad>The page could not be loaded. The collector may have been upgraded: reload.</Note>;
  if (broken) return <Note bad>The page failed: {String(broken)}. Reload it; if it fails again, please report it.</Note>;
  if (loaded?.path !== found.page.path) return <p class="note" role="status">Loading…</p>;
  return <loaded.Page key={path} of={found.of} />;
}

/** `g` and a letter goes to a page; `/` goes to the first search field. Gives the end of it. */
function shortcuts(): () => void {
  let pending = false;
  const pressed = (event: KeyboardEvent) => {
    const typing = event.target instanceof HTMLElement && event.target.closest("input, textarea, select");
    if (typing || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "/") {
      const field = document.querySelector<HTMLElement>("main input[type=search], main textarea");
      if (field) event.preventDefault();
      field?.focus();
    }
    const page = pending ? PAGES.find(({ nav }) => nav?.key === event.key) : undefined;
    pending = event.key === "g";
    if (page) go(href(page.path));
  };
  document.addEventListener("keydown", pressed);
  return () => document.removeEventListener("keydown", pressed);
}
