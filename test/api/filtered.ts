/** The URL of a list with a filter and other parameters. */
export function filtered(path: string, filter: string, more: Readonly<Record<string, string>> = {}): string {
  return `${path}?${new URLSearchParams({ filter, ...more })}`
}
