import { randomBytes } from 'node:crypto'
import { existsSync } from 'node:fs'
import { namesOptions } from '../app/outbound.js'
import { isShared, mustNotBeLost, storeAddress } from '../app/store-place.js'
import { Records } from '../control/records.js'
import { openSealer } from '../control/seal-key-file.js'
import { settleSealKey, storedSeal } from '../control/store-seal-key.js'
import type { ImportOptions } from '../control/transfer/import-options.js'
import { actions } from '../features/registry.js'
import { systemClock } from '../lib/clock.js'
import { CodedError, codeOf } from '../lib/coded-error.js'
import { packageVersion } from '../lib/files.js'
import { createNames } from '../lib/names/names.js'
import type { Sealer } from '../lib/seal.js'
import { IN_MEMORY } from '../options/fields.js'
import { type LoadInput, loadOptions } from '../options/load.js'
import type { Options } from '../options/options.js'
import { formatOptionProblem } from '../options/problem.js'
import { policyCheck } from '../resources/policy-check.js'
import { resources } from '../resources/registry.js'
import { openStore } from '../store/open-store.js'
import type { Store } from '../store/store.js'
import { ExitCode } from './exit-code.js'
import { offlineServices } from './offline-services.js'

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
  throw new CodedError('STORE_ABSENT', `there is no store ${address}; name its folder with --data`)
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
