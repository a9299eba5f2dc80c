import type { Flow } from '../../flow/flow.js'

/** An overload that reads the flow; otherwise as `FunctionDefinition`. */
export interface FlowFunctionDefinition {
  readonly signature: string
  /** Where it has a meaning; without it in every phase. */
  readonly phases?: 'http' | 'response'
  // biome-ignore lint/suspicious/noExplicitAny: the signature is the type of the arguments; the engine has checked them
  readonly runWith: (flow: Flow, ...args: any[]) => unknown
  /** The same where its one argument is known when it is compiled. */
  // biome-ignore lint/suspicious/noExplicitAny: the signature is the type of the arguments
  readonly prepareWith?: (argument: any) => (flow: Flow) => unknown
}
