/** Pages of capabilities, as `dashboard.ts` writes them for the browser. */
export const capabilityPages: readonly {
  readonly id: string
  readonly title: string
  /** Id of the page of the kernel behind which the page is listed. */
  readonly after: string
  readonly load: () => Promise<{ default: (props: { path: string[]; query: URLSearchParams }) => unknown }>
}[]
