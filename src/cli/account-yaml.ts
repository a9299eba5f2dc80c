import { isDeepStrictEqual } from 'node:util'
import { stringify } from 'yaml'
import type { AccountDocument } from '../control/transfer/account-document.js'
import type { TransferPath, TransferProblem } from '../control/transfer/import-refused.js'
import { type Place, SourceText } from '../lib/positions.js'
import { dataOf, type TreeNode } from '../policy/tree.js'
import { readTree } from '../policy/yaml-tree.js'
import { readPieces } from './account-pieces.js'

/** Far more than the largest account, and few enough that no file fills the memory. */
const LIMITS = { depth: 64, nodes: 20_000_000 }

/** The text of a document, the same for the same document. Throws a RangeError when it would not be read back as it is. */
export function accountText(document: AccountDocument): string {
  const body = stringify(document, { lineWidth: 0, aliasDuplicateObjects: false, blockQuote: 'literal' })
  const text = `${heading(document)}${body}`
  const read = readAccountText(text)
  if (!read.ok || !isDeepStrictEqual(read.data, document)) throw new RangeError('the account has no exact text')
  return text
}

function heading({ secrets, records }: AccountDocument): string {
  const left = Object.values(records).flatMap((entries) => entries.filter(({ withheld }) => withheld !== undefined))
  const lines = ['A whole Sluice account. `sluice import` shows what it would change before it does.']
  if (secrets !== undefined) lines.push('Write-only values are sealed by a passphrase, which stands nowhere.')
  else if (left.length > 0) {
    lines.push(
      `Write-only values are left out; \`withheld\` names them, in ${left.length} ${left.length === 1 ? 'record' : 'records'}.`,
      'An import keeps those that are there. `sluice export --with-secrets` takes them along.'
    )
  }
  return lines.map((line) => `# ${line}\n`).join('')
}

/** A text as data, and where its parts stand. */
export type AccountText =
  | { readonly ok: true; readonly data: unknown; readonly locate: Locate }
  | { readonly ok: false; readonly problems: readonly Located[] }

type Locate = (problem: TransferProblem) => Located

export interface Located extends Place {
  readonly code: string
  readonly message: string
}

/** Reads YAML or JSON. Never throws. Places are looked for when they are asked for: the tree of a large text takes a gigabyte. */
export function readAccountText(text: string): AccountText {
  const plain = text.startsWith('\ufeff') ? text.slice(1) : text
  const pieces = readPieces(plain, LIMITS)
  if (pieces !== undefined) return { ok: true, data: pieces, locate: locator(plain) }
  const { root, problems } = readTree(plain, LIMITS)
  if (root !== undefined && problems.length === 0) return { ok: true, data: dataOf(root), locate: locator(plain) }
  const source = new SourceText(plain)
  const located = problems.map(({ code, message, span }) => ({ code, message, ...source.place(span.start) }))
  const empty = { code: 'DOCUMENT_EMPTY', message: 'there is no document in it', line: 1, column: 1 }
  return { ok: false, problems: located.length === 0 ? [empty] : located }
}

/** Reads the text again when the first place is asked for. */
function locator(text: string): Locate {
  let read: { readonly root: TreeNode | undefined; readonly source: SourceText } | undefined
  return (problem) => {
    read ??= { root: readTree(text, LIMITS).root, source: new SourceText(text) }
    const { root, source } = read
    return root === undefined ? atStart(problem) : locate(root, source, problem)
  }
}

/** Of a text whose tree is larger than a tree may be. */
function atStart({ code, path, message }: TransferProblem): Located {
  return { line: 1, column: 1, code, message: `${path.join('.')} ${message}` }
}

function locate(root: TreeNode, source: SourceText, problem: TransferProblem): Located {
  const { code, path, message, within } = problem
  const node = nearest(root, path)
  const place = source.place(node.span.start)
  const text = `${path.join('.')} ${message}`
  if (within === undefined) return { ...place, code, message: text }
  if (node.kind !== 'scalar' || node.style !== 'literal') {
    return { ...place, code, message: `${text} (line ${within.line}, column ${within.column} of the policy)` }
  }
  // The text of a literal begins on the line after its sign, one indentation to the right.
  const [first = ''] = node.text.split('\n')
  const indentation = first === '' ? 0 : source.line(place.line + 1).indexOf(first)
  return { line: place.line + within.line, column: Math.max(0, indentation) + within.column, code, message: text }
}

/** The node at a path, or the last one on the way to it. */
function nearest(root: TreeNode, path: TransferPath): TreeNode {
  let node = root
  for (const step of path) {
    const next: TreeNode | undefined =
      node.kind === 'map'
        ? node.entries.find(({ key }) => key === String(step))?.value
        : node.kind === 'list' && typeof step === 'number'
          ? node.items[step]
          : undefined
    if (next === undefined) return node
    node = next
  }
  return node
}
