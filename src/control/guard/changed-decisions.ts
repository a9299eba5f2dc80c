/** How many requests were decided otherwise than by the policies of before a write. */
export interface ChangedDecisions {
  /** What was judged by both since this revision began to serve; undefined: it is not compared. */
  since(revision: number): { readonly judged: number; readonly changed: number } | undefined
}
