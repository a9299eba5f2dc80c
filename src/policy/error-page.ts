/** Status or class of statuses of an error page. */
const STATUSES = /^[45](?:\d\d|xx)$/

/** Returns the page as a policy document, whose check finds mistakes in the page's expressions. */
export function pageAsPolicy(source: string): string {
  const answer = { type: 'custom-response', config: { body: source } }
  return JSON.stringify({ on_http_response: [{ actions: [answer] }] })
}

/** Returns why the statuses of a page are invalid, or undefined if they are valid. */
export function refusalOfStatuses(statuses: string): string | undefined {
  return STATUSES.test(statuses) ? undefined : `"${statuses}" is no status such as 404, and no class such as 4xx or 5xx`
}
