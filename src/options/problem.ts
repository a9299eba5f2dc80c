/** Where the value of an option came from. */
export type OptionOrigin =
  | { readonly kind: 'default' }
  | { readonly kind: 'flag'; readonly flag: string }
  | { readonly kind: 'environment'; readonly variable: string }
  | { readonly kind: 'file'; readonly file: string; readonly line: number; readonly column: number }

/** One thing that is wrong (or doubtful) with the options. */
export interface OptionProblem {
  readonly severity: 'error' | 'warning'
  /** `limits.headers`; the empty text for a whole source. */
  readonly option: string
  /** What is wrong and what is allowed, for people. */
  readonly message: string
  readonly origin: OptionOrigin
}

/** Where a value came from, as people read it: `sluice.yaml:3:9`, `SLUICE_LISTEN`, `--listen` or `default`. */
export function formatOrigin(origin: OptionOrigin): string {
  switch (origin.kind) {
    case 'file':
      return `${origin.file}:${origin.line}:${origin.column}`
    case 'environment':
      return origin.variable
    case 'flag':
      return origin.flag
    default:
      return 'default'
  }
}

/** One line: `sluice.yaml:3:9: error: limits.headers: …`. */
export function formatOptionProblem({ severity, option, message, origin }: OptionProblem): string {
  return `${formatOrigin(origin)}: ${severity}: ${option === '' ? '' : `${option}: `}${message}`
}
