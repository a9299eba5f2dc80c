import { isAbsolute, posix } from 'node:path'
import { SITE_FILE } from '../../../control/declared-records.js'
import { SourceText, type Span } from '../../../lib/positions.js'
import type { Problem, UnitProblems } from '../../../policy/problems.js'

/** A file that a site file imports. Its text is appended to the others, so that offsets and lines count through all files. */
export interface ImportedText {
  /** Name from the site file: relative to its folder, or absolute. */
  readonly name: string
  readonly text: string
  /** Offset of its beginning. */
  readonly start: number
  /** Number of its first line. */
  readonly first: number
}

/** A line, from 1, of the site file or of a file that it imports. */
export interface FileLine {
  readonly line: number
  /** Imported file. @default the site file itself */
  readonly file?: string
}

/** A line as messages name it. */
export const lineWords = ({ line, file }: FileLine): string =>
  file === undefined ? `in line ${line}` : `at ${file}:${line}`

/** The name of a file that `from` names, as the site file would name it. */
export function nameFrom(from: string, name: string): string {
  const folder = posix.dirname(from)
  return folder === '.' || isAbsolute(name) ? name : posix.join(folder, name)
}

/** Number of the lines that end in a text. */
export function lineCount(text: string): number {
  let count = 0
  for (let at = text.indexOf('\n'); at !== -1; at = text.indexOf('\n', at + 1)) count++
  return count
}

/** The text of a site file, with those of the files that it imports, and the places in them. */
export class SiteText extends SourceText {
  readonly imports: readonly ImportedText[]

  /** `first`: the number of the first line. */
  constructor(text: string, first: number, imports: readonly ImportedText[]) {
    super(text, first)
    this.imports = imports
  }

  /** Converts a line number through all files into a line of one file. */
  located(line: number): FileLine {
    const part = this.imports.findLast(({ first }) => first <= line)
    return part === undefined ? { line } : { line: line - part.first + 1, file: part.name }
  }

  lineAt({ start }: Span): FileLine {
    return this.located(this.place(start).line)
  }

  /** Converts a file name at an offset into one that is relative to the site file. */
  named(name: string, { start }: Span): string {
    const part = this.imports.findLast((one) => one.start <= start)
    return part === undefined ? name : nameFrom(part.name, name)
  }

  /** Groups problems, whose lines count through all files, by their files. `source`: name of the site file in messages. */
  grouped(problems: readonly Problem[], source: string): UnitProblems[] {
    const [main, ...others] = [undefined, ...this.imports].map((part) => {
      const text = part === undefined ? this.text.slice(0, this.imports[0]?.start) : part.text
      const found = problems.flatMap((problem) => {
        const { line, file } = this.located(problem.line)
        return file === part?.name ? [{ ...problem, line }] : []
      })
      const key = part === undefined ? SITE_FILE : `${SITE_FILE} ${part.name}`
      return { key, source: part?.name ?? source, text, problems: found }
    })
    return [main as UnitProblems, ...others]
  }
}
