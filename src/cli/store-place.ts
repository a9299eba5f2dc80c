import { existsSync } from 'node:fs'
import { namesOptions } from '../app/server-services.js'
import { openSealer, settleSealKey, storedSeal } from '../control/seal-key.js'
import { systemClock } from '../lib/clock.js'
import { CodedError, codeOf } from '../lib/errors.js'
import { createNames } from '../lib/names/names.js'
import type { Sealer } from '../lib/seal.js'
import { formatOptionProblem, isShared, mustNotBeLost, optionErrors, storeAddress } from '../options/catalogue.js'
import { type LoadInput, loadOptions } from '../options/load.js'
import type { Options } from '../options/options.js'
import { IN_MEMORY } from '../options/values.js'
import { openStore } from '../store/open-store.js'
import type { Store } from '../store/store.js'
import { failureText } from './failure.js'
import { ExitCode } from './process.js'

/** Flags of commands that open a store themselves. */
export interface StoreFlags {
  readonly data?: string
  readonly store?: string
  readonly config?: string
}

/** A store and the folder of its key. */
export interface StorePlace {
  readonly options: Options
  /** Address for `openStore`. */
  readonly address: string
  /** Folder of the sealing key. @default the key is in the environment */
  readonly folder: string | undefined
  /** True if only one process can open it. */
  readonly isFile: boolean
}

/** Returns the store that flags, environment and options file name; undefined after it has printed the problems. */
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
    console.error('only its own process can open a store in memory; name a folder with --data or a store with --store')
    return undefined
  }
  return { options, address, folder, isFile: !isShared(address) }
}

const storeLog = {
  info: () => undefined,
  warn: (fields: object, message: string) => console.error(`${message} (${codeOf((fields as { err?: unknown }).err)})`)
}

/** Throws a CodedError `STORE_ABSENT` if the file of the store does not exist. */
export function mustBeThere({ address, isFile }: StorePlace): void {
  if (!isFile || existsSync(address)) return
  throw new CodedError(optionErrors.STORE_ABSENT, `there is no store ${address}; name its folder with --data`)
}

/** Opens a store; `make` creates a missing one. Fails with a StoreError, or with a CodedError `STORE_ABSENT`. */
export async function openPlace(place: StorePlace, { make }: { readonly make: boolean }): Promise<Store> {
  if (make) mustNotBeLost(place.address, place.folder)
  else mustBeThere(place)
  const lookup = createNames(namesOptions(place.options), systemClock).forSockets
  return await openStore(place.address, { log: storeLog, clock: systemClock, lookup, onRevision: () => undefined })
}

/**
 * Returns the sealer of an open store, as a process that starts on it has it, and records its key in the store. Closes the store and fails with a
 * CodedError if the key is missing, or is not that of the store.
 */
export async function sealerOf({ folder }: StorePlace, store: Store): Promise<Sealer> {
  const given = process.env.SLUICE_SEAL_KEY || undefined
  const seal = await openSealer({ given, folder, lasting: true, stored: () => storedSeal(store) })
  await settleSealKey(store, seal, { folder, lost: false, log: storeLog })
  return seal
}

/** Prints an error that a user can cause and returns the exit code; throws any other error. */
export function explained(error: unknown, what: string): number {
  console.error(`${what}: ${failureText(error)}`)
  return ExitCode.failure
}
