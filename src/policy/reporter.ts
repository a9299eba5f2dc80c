import type { SourceText, Span } from '../lib/positions.js'
import { formatPath, type NodePath, type Problem } from './problem.js'

/** Errors, and warnings, that are shown of one document. Nobody reads more, and a hostile document could have 100,000. */
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
