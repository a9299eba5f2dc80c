import type { SourceText, Span } from '../lib/positions.js'

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

/** Errors, and warnings, that are shown of one document. More is of no use, and a hostile document could have 100,000. */
const MOST = 100

/** Collects problems and gives each one its place in the text. */
export class Reporter {
  readonly problems: Problem[]
  readonly #source: SourceText
  readonly #count = { error: 0, warning: 0 }

  /** Goes on where another reporter of the same text ended. */
  constructor(source: SourceText, problems: readonly Problem[] = []) {
    this.#source = source
    this.problems = [...problems]
    for (const { severity } of problems) this.#count[severity]++
  }

  get failed(): boolean {
    return this.#count.error > 0
  }

  /** True when no further error would be shown, so that looking for one is wasted. */
  get full(): boolean {
    return this.#count.error >= MOST
  }

  error(path: NodePath, code: string, message: string, span: Span, offset?: number): void {
    this.#add('error', path, code, message, span, offset)
  }

  warning(path: NodePath, code: string, message: string, span: Span, offset?: number): void {
    this.#add('warning', path, code, message, span, offset)
  }

  /** The problems in order of the text. */
  sorted(): Problem[] {
    return this.problems.sort((a, b) => a.line - b.line || a.column - b.column)
  }

  #add(
    severity: Problem['severity'],
    path: NodePath,
    code: string,
    message: string,
    span: Span,
    offset?: number
  ): void {
    const count = ++this.#count[severity]
    if (count > MOST) return
    const shown = count < MOST ? message : `${message} (no more than ${MOST} ${severity}s are shown)`
    this.problems.push(this.problem(severity, path, code, shown, span, offset))
  }

  /** A problem with its place, without counting it among those of the document. */
  problem(
    severity: Problem['severity'],
    path: NodePath,
    code: string,
    message: string,
    span: Span,
    offset?: number
  ): Problem {
    const { line, column } = this.#source.place(span.start)
    // One line is underlined; a node may go on over many.
    const rest = this.#source.line(line).length - column + 1
    const length = Math.max(1, Math.min(span.end - span.start, rest))
    const problem = { severity, code, message, path: formatPath(path), line, column, length }
    return offset === undefined ? problem : { ...problem, offset }
  }
}
