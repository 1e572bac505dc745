/** Dark or light: the system's choice unless the reader made one, which this browser keeps. */

export type Theme = "auto" | "dark" | "light";

const KEY = "fabriclens.theme";
const THEMES: readonly Theme[] = ["auto", "dark", "light"];

export function chosenTheme(): Theme {
  const kept = localStorage.getItem(KEY);
  return THEMES.find((theme) => theme === kept) ?? "auto";
}

/** Applies the choice to the document; charts read their colors again. */
export function applyTheme(): void {
  const theme = chosenTheme();
  if (theme === "auto") delete document.documentElement.dataset["theme"];
  else document.documentElement.dataset["theme"] = theme;
  window.dispatchEvent(new Event("themechange"));
}

/** The next choice in turn. */
export function nextTheme(): Theme {
  const next = THEMES[(THEMES.indexOf(chosenTheme()) + 1) % THEMES.length] ?? "auto";
  localStorage.setItem(KEY, next);
  applyTheme();
  return next;
}

/** A color variable of the style sheet, as it is shown now: a canvas does not choose between day and night itself. */
export function color(name: string): string {
  const probe = document.documentElement.appendChild(document.createElement("i"));
  probe.style.color = `var(--${name})`;
  const shown = getComputedStyle(probe).color;
  probe.remove();
  return shown;
}
