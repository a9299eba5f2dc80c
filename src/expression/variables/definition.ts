import type { Flow, Phase } from '../../flow/flow.js'

/** One documented variable: a line of the environment. */
export interface VariableDefinition {
  /** Path as written: `req.url.path`. */
  readonly path: string
  /** CEL type: `string`, `int`, `map<string, list<string>>`, `timestamp`, … */
  readonly type: string
  /** Returns the value in the representation of the expression layer; undefined if absent. `EvaluationError` without a request or response. */
  readonly read: (flow: Flow) => unknown
  /** Result of `has()` for variables with a readable value that is not set. */
  readonly present?: (flow: Flow) => boolean
  /**
   * Phases in which the variable is available.
   * @default every phase
   */
  readonly phases?: 'http' | 'response'
  /** May be absent: reading it is then an error of kind `absent`, and `has()` shows it. */
  readonly optional?: true
  /** The data behind it, when the product does not ship it: the variable is then always empty. */
  readonly missing?: string
  /** Called when an expression that reads it is accepted: loads the data behind it, so that no request waits for them. */
  readonly prepare?: () => void
  /** A map whose documented members are variables of their own: any other member is a mistake. */
  readonly closed?: true
  /** The value of an int whose value is always a safe integer, for comparisons: undefined when it is absent. */
  readonly integer?: (flow: Flow) => number | undefined
  /** Returns the result of `timestamp()` directly, if cheaper than through the text. */
  readonly instant?: (flow: Flow) => Date
  /** The keys and values of a map, for what looks up none of them. */
  readonly walked?: (flow: Flow) => ReadonlyMap<unknown, unknown>
  /** One entry of a map of headers, without building the map. `key` is lower-case. */
  readonly entry?: (flow: Flow, key: string) => unknown
}

/** The members of a variable of type int by its value as a number, which is always a safe integer. */
export function ofInteger(
  integer: (flow: Flow) => number | undefined
): Required<Pick<VariableDefinition, 'read' | 'integer'>> {
  return {
    integer,
    read: (flow) => {
      const value = integer(flow)
      return value === undefined ? undefined : BigInt(value)
    }
  }
}

const PHASES_OF = {
  http: ['on_http_request', 'on_http_response', 'on_event_stream_message'],
  response: ['on_http_response', 'on_event_stream_message']
} as const

/** True when what is limited to `phases` can be used in `phase`. */
export function isAvailable(phases: 'http' | 'response' | undefined, phase: Phase): boolean {
  return phases === undefined || (PHASES_OF[phases] as readonly Phase[]).includes(phase)
}

/** The phases by name, for a message. */
export function phasesText(phases: 'http' | 'response'): string {
  return phases === 'http' ? 'on_http_request and on_http_response' : 'on_http_response'
}
