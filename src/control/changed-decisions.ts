/** Compares decisions on requests with those of the configuration before a write. */
export interface ChangedDecisions {
  /** Starts comparing the running configuration with its successor. `routes`: ids of the compared routes. Does not throw. */
  begin(revision: number, routes: ReadonlySet<string> | 'every'): void
  /** Returns the counts since this revision is served; undefined if it is not compared. */
  since(revision: number): { readonly judged: number; readonly changed: number } | undefined
  /** Stops the comparison. */
  end(revision: number): void
}
