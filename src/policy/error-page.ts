/** Statuses of a page: one, or a class of them. */
const STATUSES = /^[45](?:\d\d|xx)$/

/** Returns the document whose check finds mistakes in the expressions of a page. */
export function pageAsPolicy(source: string): string {
  const answer = { type: 'custom-response', config: { body: source } }
  return JSON.stringify({ on_http_response: [{ actions: [answer] }] })
}

/** Returns what is wrong with the statuses of a page; undefined: nothing. */
export function refusalOfStatuses(statuses: string): string | undefined {
  return STATUSES.test(statuses) ? undefined : `"${statuses}" is no status such as 404, and no class such as 4xx or 5xx`
}
