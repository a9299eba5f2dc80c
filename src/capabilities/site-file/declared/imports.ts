import { basename, posix, resolve } from 'node:path'
import { controlErrors } from '../../../control/errors.js'
import { type Coded, codeOf } from '../../../lib/errors.js'
import { SourceText, type Span } from '../../../lib/positions.js'
import type { Slices } from '../../../lib/slices.js'
import { fileReason } from '../../../lib/system-errors.js'
import { policyErrors } from '../../../policy/problems.js'
import {
  type MapEntry,
  type MapNode,
  nameOf,
  type TreeLimits,
  type TreeNode,
  treeErrors
} from '../../../policy/tree.js'
import { readingTree } from '../../../policy/yaml-tree.js'
import { fieldErrors } from '../../../schema/errors.js'
import { siteErrors } from './site-codes.js'
import type { SiteFileInput } from './site-input.js'
import { type ImportedText, lineCount, nameFrom } from './site-text.js'

/** Keys that name further files. */
const IMPORT_KEYS: readonly string[] = ['import', 'include']

const DEEPEST = 10
const MOST_FILES = 500
const MOST_CHARACTERS = 32 * 1024 * 1024
const LISTS: readonly string[] = ['listeners', 'certificates']

interface ImportProblem {
  readonly path: readonly string[]
  readonly span: Span
  readonly error: Coded
  readonly message: string
}

/** A site file with everything that it imports, as one. */
interface WholeSite {
  readonly root: TreeNode
  readonly text: string
  readonly imports: readonly ImportedText[]
  readonly problems: readonly ImportProblem[]
  /** Absolute paths. */
  readonly files: readonly string[]
}

interface ImportParts {
  readonly input: SiteFileInput
  readonly limits: TreeLimits
  /** Keys of a site file. */
  readonly keys: readonly string[]
  readonly slices: Slices
}

/** Does a file import other files? */
export const hasImports = (root: TreeNode): root is MapNode =>
  root.kind === 'map' && root.entries.some(({ key }) => IMPORT_KEYS.includes(key))

/** Reads the imports of a site file and joins them: maps are merged, lists are concatenated. */
export async function readImports(root: MapNode, parts: ImportParts): Promise<WholeSite> {
  const importing = new Importing(parts)
  await importing.add(root, '', [basename(parts.input.source)])
  return importing.whole(root)
}

class Importing {
  readonly #parts: ImportParts
  readonly #entries: MapEntry[] = []
  readonly #imports: ImportedText[] = []
  readonly #problems: ImportProblem[] = []
  readonly #files: string[] = []
  #text: string
  #lines: number
  #nodes = 0

  constructor(parts: ImportParts) {
    this.#parts = parts
    this.#text = closed(parts.input.text)
    this.#lines = lineCount(this.#text)
  }

  whole({ span }: MapNode): WholeSite {
    const root: TreeNode = { kind: 'map', span, entries: this.#entries }
    const [text, imports, problems, files] = [this.#text, this.#imports, this.#problems, this.#files]
    return { root, text, imports, problems, files }
  }

  /** Takes the entries of a file, and then of those that it imports. `chain`: the files on the way to it. */
  async add(root: MapNode, name: string, chain: readonly string[]): Promise<void> {
    for (const entry of root.entries) if (!IMPORT_KEYS.includes(entry.key)) this.#merge(entry)
    for (const { key, value } of root.entries.filter((entry) => IMPORT_KEYS.includes(entry.key))) {
      for (const item of value.kind === 'list' ? value.items : [value]) {
        const at = { path: [key], span: item.span }
        if (item.kind === 'scalar' && typeof item.value === 'string' && item.value !== '') {
          for (const file of await this.#matching(posix.normalize(nameFrom(name, item.value)), at, chain))
            await this.#read(file, at, chain)
        } else if (item.kind !== 'broken') {
          this.#report(
            at,
            fieldErrors.FIELD_INVALID,
            `${key} names files: a path, or a list of paths, not ${nameOf(item)}`
          )
        }
      }
    }
  }

  #report(at: Pick<ImportProblem, 'path' | 'span'>, error: Coded, message: string): void {
    this.#problems.push({ ...at, error, message })
  }

  #merge(entry: MapEntry): void {
    const { key, keySpan, value } = entry
    const index = key.startsWith('x-') ? -1 : this.#entries.findIndex((one) => one.key === key)
    const other = this.#entries[index]?.value
    if (other === undefined) this.#entries.push(entry)
    else if (other.kind === 'map' && value.kind === 'map' && key !== 'acme') {
      const names = new Set(other.entries.map((one) => one.key))
      for (const one of value.entries.filter((inner) => names.has(inner.key))) {
        const at = { path: [key, one.key], span: one.keySpan }
        this.#report(at, controlErrors.ALREADY_EXISTS, `another file has "${one.key}" under ${key} already`)
      }
      const fresh = value.entries.filter((inner) => !names.has(inner.key))
      this.#entries[index] = { key, keySpan, value: { ...other, entries: [...other.entries, ...fresh] } }
    } else if (other.kind === 'list' && value.kind === 'list' && LISTS.includes(key)) {
      this.#entries[index] = { key, keySpan, value: { ...other, items: [...other.items, ...value.items] } }
    } else this.#report({ path: [key], span: keySpan }, controlErrors.ALREADY_EXISTS, `another file has ${key} already`)
  }

  /** Returns the files that match a path with a star in its last part, in order, except for those that import this one. */
  async #matching(name: string, at: Pick<ImportProblem, 'path' | 'span'>, chain: readonly string[]): Promise<string[]> {
    if (!name.includes('*')) return [name]
    const [folder, pattern] = [posix.dirname(name), posix.basename(name)]
    if (folder.includes('*') || pattern.includes('**')) {
      this.#report(
        at,
        fieldErrors.FIELD_INVALID,
        'a star stands in the last part of a path alone, such as sites/*.yaml'
      )
      return []
    }
    const { listFolder, folder: own } = this.#parts.input
    const [before = '', ...behind] = pattern.split('*')
    try {
      const names = await listFolder(resolve(own, folder), folder)
      const found = names
        .filter((one) => !one.startsWith('.') && fits(one, before, behind))
        .map((one) => (folder === '.' ? one : posix.join(folder, one)))
        .filter((one) => !chain.includes(one))
      if (found.length === 0) this.#report(at, siteErrors.FILE_UNREADABLE, `no file is called "${name}"`)
      return found.sort()
    } catch (error) {
      this.#unreadable(folder, at, error)
      return []
    }
  }

  #unreadable(name: string, at: Pick<ImportProblem, 'path' | 'span'>, error: unknown): void {
    const code = codeOf(error)
    if (code === undefined) throw error
    this.#report(at, siteErrors.FILE_UNREADABLE, `"${name}" cannot be read: ${fileReason(code)}`)
  }

  async #read(name: string, at: Pick<ImportProblem, 'path' | 'span'>, chain: readonly string[]): Promise<void> {
    const { input, limits, slices } = this.#parts
    const invalid = (message: string) => this.#report(at, fieldErrors.FIELD_INVALID, `"${name}" ${message}`)
    if (chain.includes(name)) return invalid(`imports itself: ${[...chain, name].join(' > ')}`)
    if (this.#imports.some((one) => one.name === name)) return invalid('is imported already')
    if (chain.length > DEEPEST) return invalid(`is imported more than ${DEEPEST} files deep`)
    if (this.#files.length >= MOST_FILES)
      return invalid(`is one more than the ${MOST_FILES} files that can be imported`)
    const path = resolve(input.folder, name)
    this.#files.push(path)
    let text: string
    try {
      text = closed(await input.readFile(path, name))
    } catch (error) {
      return this.#unreadable(name, at, error)
    }
    if (this.#text.length + text.length > MOST_CHARACTERS) return invalid('makes the site file too long')
    const { root, problems } = await slices.run(readingTree(text, limits))
    // A file that is no site file may hold a secret: messages quote none of its text.
    for (const { code, message, span } of problems) {
      const { line, column } = new SourceText(text).place(span.start)
      this.#report(at, { code }, `${name}:${line}:${column}: ${code === 'SYNTAX' ? message : treeErrors[code].text}`)
    }
    if (problems.length > 0) return
    if (root === undefined) return this.#report(at, policyErrors.DOCUMENT_EMPTY, `"${name}" says nothing`)
    if (root.kind !== 'map' || !root.entries.some(({ key }) => this.#parts.keys.includes(key)))
      return invalid(`is no site file: it has none of ${this.#parts.keys.join(', ')}`)
    this.#nodes += root.entries.reduce((count, { value }) => count + countNodes(value), 1)
    if (this.#nodes > limits.nodes) return invalid(`makes more than ${limits.nodes} values`)
    const start = this.#text.length
    this.#imports.push({ name, text, start, first: this.#lines + 1 })
    this.#text += text
    this.#lines += lineCount(text)
    await this.add(moved(root, start) as MapNode, name, [...chain, name])
  }
}

const closed = (text: string) => (text === '' || text.endsWith('\n') ? text : `${text}\n`)

function fits(name: string, before: string, behind: readonly string[]): boolean {
  if (!name.startsWith(before)) return false
  let at = before.length
  for (const [index, part] of behind.entries()) {
    const found = index === behind.length - 1 ? Math.max(name.length - part.length, at) : name.indexOf(part, at)
    if (found === -1 || !name.startsWith(part, found)) return false
    at = found + part.length
  }
  return true
}

/** Number of nodes below and with this one. */
export function countNodes(node: TreeNode): number {
  if (node.kind === 'map') return node.entries.reduce((count, { value }) => count + countNodes(value), 1)
  return node.kind === 'list' ? node.items.reduce((count, item) => count + countNodes(item), 1) : 1
}

/** The same tree where its text begins at another offset. */
function moved(node: TreeNode, by: number): TreeNode {
  const shifted = ({ start, end }: Span): Span => ({ start: start + by, end: end + by })
  const span = shifted(node.span)
  if (node.kind === 'list') return { ...node, span, items: node.items.map((item) => moved(item, by)) }
  if (node.kind !== 'map') return { ...node, span }
  const entries = node.entries.map(({ key, keySpan, value }) => ({
    key,
    keySpan: shifted(keySpan),
    value: moved(value, by)
  }))
  return { ...node, span, entries }
}
