/** The query that was last run in this tab. A link may bring any query, so only that one runs by itself. */

const KEY = "fabriclens.asked";

export function rememberQuery(query: string): void {
  sessionStorage.setItem(KEY, query.trim());
}

export function isRemembered(query: string): boolean {
  return sessionStorage.getItem(KEY) === query;
}
