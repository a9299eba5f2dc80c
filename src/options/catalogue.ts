import { existsSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { CodedError, defineErrors } from '../lib/errors.js'
import { isPostgresUrl } from '../lib/host.js'
import { type Options, optionsSchema } from './options.js'
import { IN_MEMORY, type OptionSchema } from './values.js'

/** Error codes of option values. */
export const optionErrors = defineErrors({
  STORE_ABSENT: {
    text: 'There is no store at the place that the options name.',
    help: 'Correct --data or --store, restore a backup, or begin an empty store with --new-store.'
  }
})

/** One option with its path and its environment variable. */
export interface OptionEntry {
  /** `limits.headers` */
  readonly path: string
  readonly steps: readonly string[]
  /** `SLUICE_LIMITS_HEADERS` */
  readonly variable: string
  readonly schema: OptionSchema
}

/** One level of the options file: an option or a section for each key. */
export type OptionTree = ReadonlyMap<string, OptionEntry | OptionTree>

interface SchemaNode {
  readonly properties?: Readonly<Record<string, SchemaNode>>
}

/** The options as a tree, in the order of the schema. */
export function optionTree(): OptionTree {
  return treeOf(optionsSchema as unknown as SchemaNode, [])
}

/** All options in the order of the schema. */
export function optionEntries(tree: OptionTree = optionTree()): OptionEntry[] {
  return [...tree.values()].flatMap((node) => (isOption(node) ? [node] : optionEntries(node)))
}

export function isOption(node: OptionEntry | OptionTree): node is OptionEntry {
  return 'schema' in node
}

function treeOf(schema: SchemaNode, steps: readonly string[]): OptionTree {
  const tree = new Map<string, OptionEntry | OptionTree>()
  for (const [name, child] of Object.entries(schema.properties ?? {})) {
    const inner = [...steps, name]
    tree.set(name, child.properties === undefined ? entryOf(child, inner) : treeOf(child, inner))
  }
  return tree
}

function entryOf(schema: SchemaNode, steps: readonly string[]): OptionEntry {
  return {
    path: steps.join('.'),
    steps,
    variable: `SLUICE_${steps.join('_').toUpperCase()}`,
    schema: schema as unknown as OptionSchema
  }
}

/** Source of an option's value. */
export type OptionOrigin =
  | { readonly kind: 'default' }
  | { readonly kind: 'flag'; readonly flag: string }
  | { readonly kind: 'environment'; readonly variable: string }
  | { readonly kind: 'file'; readonly file: string; readonly line: number; readonly column: number }

/** An error or warning about the options. */
export interface OptionProblem {
  readonly severity: 'error' | 'warning'
  /** `limits.headers`; an empty string for a whole source. */
  readonly option: string
  /** Message for people: the mistake and the allowed values. */
  readonly message: string
  readonly origin: OptionOrigin
}

/** Formats the source of a value: `sluice.yaml:3:9`, `SLUICE_LISTEN`, `--listen` or `default`. */
export function formatOrigin(origin: OptionOrigin): string {
  switch (origin.kind) {
    case 'file':
      return `${origin.file}:${origin.line}:${origin.column}`
    case 'environment':
      return origin.variable
    case 'flag':
      return origin.flag
    default:
      return 'default'
  }
}

/** Formats a problem as one line: `sluice.yaml:3:9: error: limits.headers: …`. */
export function formatOptionProblem({ severity, option, message, origin }: OptionProblem): string {
  return `${formatOrigin(origin)}: ${severity}: ${option === '' ? '' : `${option}: `}${message}`
}

/**
 * Returns whether the proxy listens on the address of `listen`. Its default yields to the listeners of the site file (`named`: their
 * number) and to a listener of the options with the same port.
 */
export function opensListen({ listen, listeners }: Pick<Options, 'listen' | 'listeners'>, named: number): boolean {
  if (listen.off === true) return false
  return listen.preset !== true || (named === 0 && !listeners.some((one) => one.listen.port === listen.port))
}

/** Returns the store's address for `openStore`. */
export function storeAddress({ store, data }: Pick<Options, 'store' | 'data'>): string {
  return store ?? (data === IN_MEMORY ? IN_MEMORY : join(data, 'sluice.db'))
}

/**
 * Throws a CodedError `STORE_ABSENT` if the store's file is absent or empty and the data folder has a copy of the configuration: a new
 * store would hide the loss. A sealing key alone proves nothing, because older versions wrote it before the store.
 */
export function mustNotBeLost(address: string, folder: string | undefined): void {
  if (folder === undefined || !isWithoutStore(address) || !isFile(join(folder, COPY_FILE))) return
  const found = existsSync(address) ? `the store ${address} is empty` : `there is no store ${address}`
  const message = `${found}, but ${folder} has a copy of one: put it back ("sluice restore"), name the right place with --data or --store, or begin an empty one with --new-store`
  throw new CodedError(optionErrors.STORE_ABSENT, message)
}

/** Container runtimes create a folder if the file to be mounted does not exist. */
function isFile(path: string): boolean {
  return existsSync(path) && statSync(path).isFile()
}

/** Name of the copy of the configuration in the data folder. */
export const COPY_FILE = 'configuration.copy'

/** Bytes of the smallest SQLite file, one page (https://www.sqlite.org/fileformat.html, 1.3.2). */
const SMALLEST_STORE = 512

/** Returns whether the store's file is missing or empty. A store is created in one step, so a valid one is never empty. */
export function isWithoutStore(address: string): boolean {
  if (isPostgresUrl(address) || address === IN_MEMORY) return false
  if (!existsSync(address)) return true
  const there = statSync(address)
  return there.isFile() && there.size < SMALLEST_STORE
}

/** Returns whether other processes can have the same store open. */
export function isShared(address: string): boolean {
  return isPostgresUrl(address)
}
