import { randomBytes } from 'node:crypto'
import { existsSync } from 'node:fs'
import { isDeepStrictEqual } from 'node:util'
import { stringify } from 'yaml'
import { offlineServices, policyCheck } from '../app/offline.js'
import { namesOptions } from '../app/services.js'
import { Records } from '../control/records.js'
import { openSealer, settleSealKey, storedSeal } from '../control/seal-key.js'
import type { AccountDocument, ImportOptions, TransferPath, TransferProblem } from '../control/transfer/document.js'
import { actions } from '../features/registry.js'
import { systemClock } from '../lib/clock.js'
import { CodedError, codeOf } from '../lib/errors.js'
import { packageVersion } from '../lib/files.js'
import { createNames } from '../lib/names/names.js'
import { type Place, SourceText } from '../lib/positions.js'
import type { Sealer } from '../lib/seal.js'
import { formatOptionProblem, isShared, mustNotBeLost, optionErrors, storeAddress } from '../options/catalogue.js'
import { type LoadInput, loadOptions } from '../options/load.js'
import type { Options } from '../options/options.js'
import { IN_MEMORY } from '../options/values.js'
import { dataOf, type TreeNode } from '../policy/tree.js'
import { readTree } from '../policy/yaml-tree.js'
import { resources } from '../resources/registry.js'
import { openStore } from '../store/open-store.js'
import type { Store } from '../store/store.js'
import { readPieces } from './account-pieces.js'
import { ExitCode } from './process.js'

/** The flags of the commands that work on a store themselves. */
export interface StoreFlags {
  readonly data?: string
  readonly store?: string
  readonly config?: string
}

/** Where a store is and what belongs to it. */
export interface StorePlace {
  readonly options: Options
  /** As `openStore` takes it. */
  readonly address: string
  /** Folder of the sealing key; undefined: only the environment has one. */
  readonly folder: string | undefined
  /** Can only one process have it open? */
  readonly isFile: boolean
}

/** The place that flags, environment and options file name; undefined after the problems were told. */
export async function storePlace({ data, store, config }: StoreFlags): Promise<StorePlace | undefined> {
  const flags: LoadInput['flags'] = [
    ...(data === undefined ? [] : [{ flag: '--data', option: 'data', text: data }]),
    ...(store === undefined ? [] : [{ flag: '--store', option: 'store', text: store }])
  ]
  const named = config === undefined ? {} : { config }
  const loaded = await loadOptions({ flags, environment: process.env, folder: process.cwd(), ...named })
  if (!loaded.ok) {
    for (const problem of loaded.problems) console.error(formatOptionProblem(problem))
    return undefined
  }
  const { options } = loaded
  const folder = options.data === IN_MEMORY ? undefined : options.data
  const address = storeAddress(options)
  if (address === IN_MEMORY) {
    console.error('a store in memory belongs to its process alone; name a folder with --data or a store with --store')
    return undefined
  }
  return { options, address, folder, isFile: !isShared(address) }
}

const storeLog = {
  info: () => undefined,
  warn: (fields: object, message: string) => console.error(`${message} (${codeOf((fields as { err?: unknown }).err)})`)
}

/** Fails with a CodedError `STORE_ABSENT` for a file that is not there. */
export function mustBeThere({ address, isFile }: StorePlace): void {
  if (!isFile || existsSync(address)) return
  throw new CodedError(optionErrors.STORE_ABSENT, `there is no store ${address}; name its folder with --data`)
}

/** Opens a store that must be there, or may be made. Fails with a StoreError, or with a CodedError `STORE_ABSENT`. */
export async function openPlace(place: StorePlace, { make }: { readonly make: boolean }): Promise<Store> {
  if (make) mustNotBeLost(place.address, place.folder)
  else mustBeThere(place)
  const lookup = createNames(namesOptions(place.options), systemClock).forSockets
  return await openStore(place.address, { log: storeLog, clock: systemClock, lookup, onRevision: () => undefined })
}

/**
 * The sealer of a store that is open, as a process that starts there has it; from then on the store is written under its key.
 * Closes the store when it fails with a CodedError: there is no key, or another one than the store's.
 */
export async function sealerOf({ folder }: StorePlace, store: Store): Promise<Sealer> {
  const given = process.env.SLUICE_SEAL_KEY || undefined
  const seal = await openSealer({ given, folder, lasting: true, stored: () => storedSeal(store) })
  await settleSealKey(store, seal, { folder, lost: false, log: storeLog })
  return seal
}

/** What exports and imports need to know of the program. */
export function transferOptions(
  { options }: StorePlace,
  seal: Sealer
): Omit<ImportOptions, 'prune'> & { version: string } {
  return {
    resources,
    records: new Records(seal),
    clock: systemClock,
    checkPolicy: policyCheck(offlineServices(actions), actions),
    zone: options.zone,
    requireReserved: options.require_reserved,
    random: (bytes) => randomBytes(bytes),
    version: packageVersion()
  }
}

/** Tells what a user can cause and answers with the exit code; throws what is a fault of ours. */
export function explained(error: unknown, what: string): number {
  if (!(error instanceof CodedError) && codeOf(error) === undefined) throw error
  const hint = codeOf(error) === 'STORE_LOCKED' ? '; stop that process first' : ''
  console.error(`${what}: ${error instanceof CodedError ? error.message : codeOf(error)}${hint}`)
  return ExitCode.failure
}

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
