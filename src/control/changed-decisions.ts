/** How many requests are decided otherwise than by the configuration of before a write. */
export interface ChangedDecisions {
  /** What serves until now is compared with what follows it. `routes`: ids of those whose requests are compared. Does not throw. */
  begin(revision: number, routes: ReadonlySet<string> | 'every'): void
  /** What was judged by both since this revision began to serve; undefined: it is not compared. */
  since(revision: number): { readonly judged: number; readonly changed: number } | undefined
  /** It is no longer compared. */
  end(revision: number): void
}
