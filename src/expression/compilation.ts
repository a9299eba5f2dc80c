import type { RegexCache } from '../lib/regex.js'
import type { Node } from './engine.js'
import type { FunctionTable } from './function-table.js'
import type { Run } from './state.js'

/** Names that comprehensions bind, and where their values stand in `State.locals`. */
export type Scope = ReadonlyMap<string, number>

/** What compiling a node needs to know, how it compiles others, and where it reports. */
export interface Compilation {
  readonly functions: FunctionTable
  /** The patterns that `matches` compiles while traffic passes. */
  readonly regexes: RegexCache
  readonly compile: (node: Node, scope: Scope) => Run
  /** Reports what only compiling finds; the closure that is returned anyway is never run. */
  readonly report: (node: Node, code: string, message: string) => void
}

export function constant(value: unknown): Run {
  return () => value
}
