import type { Flow } from '../../flow/flow.js'

/** An overload that reads the flow; otherwise as `FunctionDefinition`. */
export interface FlowFunctionDefinition {
  readonly signature: string
  /** Where it has a meaning; without it in every phase. */
  readonly phases?: 'http' | 'response'
  // biome-ignore lint/suspicious/noExplicitAny: the signature is the type of the arguments; the engine has checked them
  readonly runWith: (flow: Flow, ...args: any[]) => unknown
}
