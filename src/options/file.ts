import { readFile } from 'node:fs/promises'
import { isAlias, isMap, isScalar, LineCounter, type Node, type Pair, parseDocument } from 'yaml'
import { didYouMean } from '../lib/suggest.js'
import { isOption, type OptionEntry, type OptionTree } from './catalogue.js'
import type { OptionOrigin, OptionProblem } from './problem.js'

/** One option as a file writes it. */
export interface WrittenOption {
  readonly entry: OptionEntry
  readonly written: unknown
  readonly origin: OptionOrigin
}

export interface OptionsFile {
  readonly options: readonly WrittenOption[]
  readonly problems: readonly OptionProblem[]
}

/** Reads an options file (YAML). `name` stands in messages. A file that cannot be read is a problem, not an exception. */
export async function readOptionsFile(path: string, name: string, tree: OptionTree): Promise<OptionsFile> {
  let text: string
  try {
    text = await readFile(path, 'utf8')
  } catch (error) {
    const code = (error as NodeJS.ErrnoException).code ?? 'unknown error'
    const why = code === 'ENOENT' ? 'there is no such file' : `the file cannot be read (${code})`
    return {
      options: [],
      problems: [
        { severity: 'error', option: '', message: why, origin: { kind: 'file', file: name, line: 1, column: 1 } }
      ]
    }
  }
  return new FileReader(text, name).read(tree)
}

class FileReader {
  readonly #lines = new LineCounter()
  readonly #document
  readonly #name: string
  readonly #options: WrittenOption[] = []
  readonly #problems: OptionProblem[] = []

  constructor(text: string, name: string) {
    this.#name = name
    this.#document = parseDocument(text, { lineCounter: this.#lines, prettyErrors: false })
  }

  read(tree: OptionTree): OptionsFile {
    for (const error of [...this.#document.errors, ...this.#document.warnings]) {
      this.#problem('', `this is not valid YAML: ${error.message}`, error.pos[0])
    }
    if (this.#problems.length === 0) this.#section(this.#document.contents, tree, '')
    return { options: this.#options, problems: this.#problems }
  }

  /** An empty section or option counts as not given. */
  #section(node: Node | null, tree: OptionTree, path: string): void {
    const content = this.#resolve(node)
    if (content === undefined || (isScalar(content) && content.value === null)) return
    if (!isMap(content)) {
      const what =
        path === ''
          ? 'the file must hold options, one `name: value` on each line'
          : `must hold options: ${[...tree.keys()].join(', ')}`
      this.#problem(path, what, content.range?.[0])
      return
    }
    for (const pair of content.items as Pair<Node, Node | null>[]) this.#pair(pair, tree, path)
  }

  #pair({ key, value }: Pair<Node, Node | null>, tree: OptionTree, path: string): void {
    const name = isScalar(key) ? String(key.value) : ''
    const inner = path === '' ? name : `${path}.${name}`
    const known = tree.get(name)
    if (known === undefined) {
      this.#problem(inner, `there is no such option${didYouMean(name, tree.keys())}`, key.range?.[0])
      return
    }
    if (!isOption(known)) {
      this.#section(value, known, inner)
      return
    }
    const node = this.#resolve(value)
    const written: unknown = node?.toJS(this.#document)
    if (written === null || written === undefined) return
    this.#options.push({ entry: known, written, origin: this.#place(value?.range?.[0]) })
  }

  #resolve(node: Node | null): Node | undefined {
    return (isAlias(node) ? node.resolve(this.#document) : node) ?? undefined
  }

  #problem(option: string, message: string, offset: number | undefined): void {
    this.#problems.push({ severity: 'error', option, message, origin: this.#place(offset) })
  }

  #place(offset = 0): OptionOrigin {
    const { line, col } = this.#lines.linePos(offset)
    return { kind: 'file', file: this.#name, line: Math.max(1, line), column: Math.max(1, col) }
  }
}
