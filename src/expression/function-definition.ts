/**
 * One overload of a function of the expression language.
 *
 * `signature` is in the notation of the expression engine: `'string.charAt(int): string'` for a receiver call,
 * `'lists.range(int): list<int>'` for a namespaced one. `run` gets the engine's values (bigint for int, number for
 * double, Map or plain object for map) and answers one; it throws `EvaluationError` and nothing else.
 */
export interface FunctionDefinition {
  readonly signature: string
  // biome-ignore lint/suspicious/noExplicitAny: the signature is the type of the arguments; the engine has checked them
  readonly run: (...args: any[]) => unknown
}
