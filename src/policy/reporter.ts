import type { SourceText, Span } from '../lib/positions.js'
import { formatPath, type NodePath, type Problem } from './problem.js'

/** Collects problems and gives each one its place in the text. */
export class Reporter {
  readonly problems: Problem[]
  readonly #source: SourceText

  constructor(source: SourceText, problems: readonly Problem[] = []) {
    this.#source = source
    this.problems = [...problems]
  }

  get failed(): boolean {
    return this.problems.some((problem) => problem.severity === 'error')
  }

  error(path: NodePath, code: string, message: string, span: Span, offset?: number): void {
    this.#add('error', path, code, message, span, offset)
  }

  warning(path: NodePath, code: string, message: string, span: Span, offset?: number): void {
    this.#add('warning', path, code, message, span, offset)
  }

  /** Puts the problems in order of the text. */
  sort(): void {
    this.problems.sort((a, b) => a.line - b.line || a.column - b.column)
  }

  #add(
    severity: Problem['severity'],
    path: NodePath,
    code: string,
    message: string,
    span: Span,
    offset?: number
  ): void {
    const { line, column } = this.#source.place(span.start)
    // One line is underlined; a node may go on over many.
    const rest = this.#source.line(line).length - column + 1
    const length = Math.max(1, Math.min(span.end - span.start, rest))
    const problem = { severity, code, message, path: formatPath(path), line, column, length }
    this.problems.push(offset === undefined ? problem : { ...problem, offset })
  }
}
