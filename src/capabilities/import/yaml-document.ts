import { isMap, isScalar, isSeq, LineCounter, type Node, parseDocument } from 'yaml'
import { syntaxError } from './errors.js'
import type { SourcePosition } from './model.js'
import { type Fields, fieldsOf } from './values.js'

/** Data of a file with the places of its values. */
export interface PlacedDocument {
  readonly data: Fields
  /** Place of a value by the keys that lead to it. */
  positionOf(path: readonly (string | number)[]): SourcePosition
}

/** Reads YAML. Throws IMPORT_SYNTAX. */
export function readYaml(text: string, file: string): PlacedDocument {
  const lines = new LineCounter()
  const document = parseDocument(text, { lineCounter: lines })
  const [error] = document.errors
  if (error !== undefined) {
    const { line, col } = lines.linePos(error.pos[0])
    const problem = (error.message.split('\n')[0] as string).replace(/ at line.*$/, '')
    throw syntaxError(problem, { file, line: Math.max(1, line), column: Math.max(1, col) })
  }
  const places = new Map<string, number>()
  const visit = (node: unknown, path: readonly string[]): void => {
    const entries = isMap(node)
      ? node.items.map(({ key, value }) => [isScalar(key) ? String(key.value) : '', key, value] as const)
      : isSeq(node)
        ? node.items.map((item, index) => [String(index), item, item] as const)
        : []
    for (const [name, at, value] of entries) {
      const inner = [...path, name]
      const range = (at as Node | null)?.range
      if (range !== undefined && range !== null) places.set(JSON.stringify(inner), range[0])
      visit(value, inner)
    }
  }
  visit(document.contents, [])
  return {
    data: isMap(document.contents) ? fieldsOf(toData(document, file)) : {},
    positionOf(path) {
      const offset = places.get(JSON.stringify(path.map(String)))
      const { line, col } = offset === undefined ? { line: 1, col: 1 } : lines.linePos(offset)
      return { file, line, column: col }
    }
  }
}

function toData(document: ReturnType<typeof parseDocument>, file: string): unknown {
  try {
    return document.toJS({ maxAliasCount: 1000 })
  } catch (error) {
    if (!(error instanceof ReferenceError)) throw error
    throw syntaxError(error.message, { file, line: 1, column: 1 })
  }
}
