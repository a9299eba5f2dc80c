/** Steps from the root of a document to a node: keys and indexes. */
export type NodePath = readonly (string | number)[]

/** One thing that is wrong (or doubtful) in a policy document, with its place in the text. */
export interface Problem {
  readonly severity: 'error' | 'warning'
  /** Stable word for programs: `ACTION_UNKNOWN`, `CONFIG_INVALID`, `EXPRESSION_TYPE`, … */
  readonly code: string
  /** What is wrong and what is allowed, for people. */
  readonly message: string
  /** `on_http_request[0].actions[1].config.capacity`; '' for the document itself. */
  readonly path: string
  /** From 1. */
  readonly line: number
  readonly column: number
  /** Characters to underline from `column` on; at least 1. */
  readonly length: number
  /** Offset inside the string at `path`, when an expression is to blame; UTF-16 units from 0. */
  readonly offset?: number
}

/** The problems of one policy document of a plan. */
export interface UnitProblems {
  readonly key: string
  readonly source: string
  readonly text: string
  readonly problems: readonly Problem[]
}

/** A path as people write it. */
export function formatPath(path: NodePath): string {
  let text = ''
  for (const step of path) {
    if (typeof step === 'number') text += `[${step}]`
    else if (/^[A-Za-z_][\w-]*$/.test(step)) text += text === '' ? step : `.${step}`
    else text += `[${JSON.stringify(step)}]`
  }
  return text
}
