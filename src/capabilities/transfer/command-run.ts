import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { buffer } from 'node:stream/consumers'
import { isDeepStrictEqual } from 'node:util'
import { commandErrors } from '../../app/errors.js'
import { confirmed } from '../../cli/confirm.js'
import { ExitCode } from '../../cli/process.js'
import { explained, openPlace, type StoreFlags, type StorePlace, sealerOf, storePlace } from '../../cli/store-place.js'
import { readTextFile } from '../../cli/text-file.js'
import { revisionNote } from '../../control/revision-note.js'
import { systemClock } from '../../lib/clock.js'
import { atMost } from '../../lib/concurrency.js'
import { CodedError, codeOf } from '../../lib/errors.js'
import { replaceFile } from '../../lib/files.js'
import { newId } from '../../lib/id.js'
import { printable } from '../../lib/printable.js'
import { resources } from '../../resources/registry.js'
import { backUpSqlite } from '../../store/sqlite-backup.js'
import type { Store } from '../../store/store.js'
import { type AccountText, accountText, type Located, readAccountText, transferOptions } from './command-account.js'
import {
  type AccountDocument,
  type ImportOptions,
  ImportRefused,
  newPassphraseKey,
  openPassphraseKey,
  readAccountDocument,
  transferErrors
} from './document.js'
import { exportAccount } from './export.js'
import { type ImportDifference, importAccount, type RecordDifference, recordedEdits } from './import.js'

const INTERRUPT = '\u0003'
const END = ['\r', '\n', '\u0004']
const BACK = ['\u007f', '\b']

/**
 * Returns the passphrase of the environment, or of the user's hidden input. `again` prompts twice. Fails with a CodedError
 * `PASSPHRASE_MISSING` (no terminal) or `PASSPHRASE_WRONG` (different inputs).
 */
async function passphrase({ again }: { readonly again: boolean }): Promise<string> {
  const given = process.env.SLUICE_PASSPHRASE ?? ''
  if (given !== '') return given
  if (!process.stdin.isTTY) {
    throw new CodedError(
      commandErrors.PASSPHRASE_MISSING,
      'no terminal to ask for the passphrase: set SLUICE_PASSPHRASE'
    )
  }
  const first = await hidden('Passphrase: ')
  if (again && (await hidden('Once more: ')) !== first) {
    throw new CodedError(transferErrors.PASSPHRASE_WRONG, 'the two passphrases differ')
  }
  return first
}

/** One line without echo. */
function hidden(prompt: string): Promise<string> {
  const { stdin, stderr } = process
  stderr.write(prompt)
  stdin.setRawMode(true)
  stdin.setEncoding('utf8')
  stdin.resume()
  return new Promise((resolve, reject) => {
    let text = ''
    const end = (settle: () => void) => {
      stdin.off('data', take)
      stdin.setRawMode(false)
      stdin.pause()
      stderr.write('\n')
      settle()
    }
    const take = (typed: string) => {
      for (const character of typed) {
        if (character === INTERRUPT) return end(() => reject(new CodedError(commandErrors.INTERRUPTED, 'interrupted')))
        if (END.includes(character)) return end(() => resolve(text))
        text = BACK.includes(character) ? text.slice(0, -1) : text + character
      }
    }
    stdin.on('data', take)
  })
}

export interface ExportFlags extends StoreFlags {
  /** An earlier revision. @default the last one */
  readonly at?: string
  readonly withSecrets?: boolean
  /** Output file. @default standard output */
  readonly output?: string
}

/** Writes the account to a file, or to standard output; resolves with the exit code. */
export async function exportTo({ at, withSecrets = false, output, ...flags }: ExportFlags): Promise<number> {
  if (at !== undefined && !/^[1-9]\d{0,14}$/.test(at)) {
    console.error(`--at: ${at} is no revision`)
    return ExitCode.usage
  }
  const place = await storePlace(flags)
  if (place === undefined) return ExitCode.usage
  try {
    const secrets = withSecrets ? await newPassphraseKey(await passphrase({ again: true })) : undefined
    const { store, close } = await openToExport(place)
    let text: string
    try {
      const options = transferOptions(place, await sealerOf(place, store))
      const sealing = secrets === undefined ? {} : { secrets }
      const past = at === undefined ? {} : { at: Number(at) }
      text = accountText(await exportAccount(store, systemClock, { ...options, ...sealing, ...past }))
    } finally {
      await close()
    }
    if (output === undefined) await print(text)
    else await replaceFile(output, text, 'keep')
    return ExitCode.ok
  } catch (error) {
    return explained(error, 'nothing was exported')
  }
}

/** Opens the store to read it. Of a file that a running process has open, a copy is read, which `close` removes. Fails as `openPlace`. */
async function openToExport(place: StorePlace): Promise<{ readonly store: Store; close(): Promise<void> }> {
  try {
    const store = await openPlace(place, { make: false })
    return { store, close: () => store.close() }
  } catch (error) {
    if (codeOf(error) !== 'STORE_LOCKED') throw error
  }
  const folder = await mkdtemp(join(tmpdir(), 'sluice-export-'))
  const remove = () => rm(folder, { recursive: true, force: true })
  try {
    const address = join(folder, 'sluice.db')
    backUpSqlite(place.address, address, [])
    const store = await openPlace({ ...place, address }, { make: false })
    return { store, close: async () => await store.close().finally(remove) }
  } catch (error) {
    await remove()
    throw error
  }
}

/** Waits for a slow reader: the process does not. */
function print(text: string): Promise<void> {
  return new Promise((resolve, reject) => {
    process.stdout.write(text, (error) => (error == null ? resolve() : reject(error)))
  })
}

const SIGNS = { created: '+', updated: '~', deleted: '-' } as const

/** Formats the changes of an import: one line per changed record, by kind, and the totals. */
function formatDifference({ records, unchanged, warnings }: ImportDifference): string[] {
  const kinds = new Set(records.map(({ kind }) => kind))
  const lines = [...kinds].flatMap((kind) => [`${kind}:`, ...records.filter((one) => one.kind === kind).map(line)])
  const count = (change: RecordDifference['change']) => records.filter((one) => one.change === change).length
  const same = Object.values(unchanged).reduce((sum, number) => sum + number, 0)
  const total = `${count('created')} created, ${count('updated')} updated, ${count('deleted')} deleted, ${same} unchanged`
  return [...lines, ...warnings.map((warning) => `warning: ${shortened(warning)}`), total]
}

function line({ id, name, change, fields }: RecordDifference): string {
  const what = fields.length === 0 ? '' : ` (${fields.join(', ')})`
  return `  ${SIGNS[change]} ${id}${name === '' ? '' : ` ${shortened(name)}`}${what}`
}

/** Characters of a name or a warning that are shown. */
const LONGEST_SHOWN = 100

function shortened(text: string): string {
  return printable(text).slice(0, LONGEST_SHOWN)
}

/** Maximum time for which a slow reader of an import's output can block other writers (ms). */
const LONGEST_SHOWING = 2_000

export interface ImportMode {
  readonly dryRun: boolean
  readonly yes: boolean
  readonly prune: boolean
  readonly partial: boolean
}

/** Imports a document; resolves with the exit code. */
export async function importFile(file: string, flags: StoreFlags, mode: ImportMode): Promise<number> {
  const place = await storePlace(flags)
  if (place === undefined) return ExitCode.usage
  if (!mode.yes && !mode.dryRun && (file === '-' || !process.stdin.isTTY)) {
    console.error(
      'there is no terminal to ask: give --yes to import without a question, or --dry-run to see what it does'
    )
    return ExitCode.usage
  }
  try {
    const text = readAccountText(await readTextFile(file, file === '-' ? buffer(process.stdin) : undefined))
    if (!text.ok) return report(file, text.problems)
    const code = await located(file, text, async () => {
      const document = readAccountDocument(text.data, resources, mode)
      const sealing = document.secrets
      const sealer =
        sealing === undefined ? {} : { sealer: await openPassphraseKey(await passphrase({ again: false }), sealing) }
      const store = await openPlace(place, { make: true })
      try {
        const options = transferOptions(place, await sealerOf(place, store))
        return await importInto(store, document, { ...options, ...sealer, prune: mode.prune }, mode)
      } finally {
        await store.close()
      }
    })
    await allShown()
    return code
  } catch (error) {
    return explained(error, 'nothing was imported')
  }
}

async function importInto(
  store: Store,
  document: AccountDocument,
  options: ImportOptions,
  { dryRun, yes }: ImportMode
): Promise<number> {
  if (yes && !dryRun) return await importAtOnce(store, document, options)
  const { difference: shown } = await attempt(store, document, options, async () => false)
  show(shown)
  if (dryRun || shown.records.length === 0) return ExitCode.ok
  if ((await confirmed('Import this?')) !== true) {
    console.error('nothing was imported')
    return ExitCode.failure
  }
  const { difference, committed } = await attempt(store, document, options, async (now) =>
    isDeepStrictEqual(now, shown)
  )
  if (committed) console.log('imported')
  else {
    for (const line of formatDifference(difference)) console.error(line)
    console.error('nothing was imported: the account has changed meanwhile, and the import would now do this')
  }
  return committed ? ExitCode.ok : ExitCode.failure
}

/** Imports without confirmation: the changes are displayed after validation and then committed. */
async function importAtOnce(store: Store, document: AccountDocument, options: ImportOptions): Promise<number> {
  const { committed } = await attempt(store, document, options, async (difference) => {
    show(difference)
    await atMost(LONGEST_SHOWING, allShown())
    return difference.records.length > 0
  })
  if (committed) console.log('imported')
  return ExitCode.ok
}

function show(difference: ImportDifference): void {
  console.log(formatDifference(difference).join('\n'))
}

/** Resolves when standard output is flushed, or its reader has closed it. */
function allShown(): Promise<void> {
  return new Promise((resolve) => {
    process.stdout.write('', () => resolve())
  })
}

/** Runs one transaction, which is committed if `keep` returns true for its changes. */
async function attempt(
  store: Store,
  document: AccountDocument,
  options: ImportOptions,
  keep: (difference: ImportDifference) => Promise<boolean>
): Promise<{ difference: ImportDifference; committed: boolean }> {
  const { value: difference, committed } = await store.transact(newId('op', systemClock.wall()), async (tx) => {
    const { difference, edits, principal } = await importAccount(tx, document, options)
    const changes = await recordedEdits(tx, edits, options)
    tx.note(revisionNote({ principal, subject: 'sluice import', key: null }, changes))
    if (!(await keep(difference))) tx.abandon()
    return difference
  })
  return { difference, committed }
}

/** Runs `run`; reports errors in the document with their positions. */
async function located(file: string, text: AccountText & { ok: true }, run: () => Promise<number>): Promise<number> {
  try {
    return await run()
  } catch (error) {
    if (!(error instanceof ImportRefused)) throw error
    return report(file, error.problems.map(text.locate))
  }
}

function report(file: string, problems: readonly Located[]): number {
  for (const { line, column, code, message } of problems) {
    console.error(printable(`${file}:${line}:${column}: error ${code}: ${message}`))
  }
  console.error('nothing was imported')
  return ExitCode.failure
}
