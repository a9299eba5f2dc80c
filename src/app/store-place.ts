import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { CodedError } from '../lib/coded-error.js'
import { isPostgresUrl } from '../lib/host.js'
import { IN_MEMORY } from '../options/fields.js'
import type { Options } from '../options/options.js'

/** Where the store of a process lies, as `openStore` takes it. */
export function storeAddress({ store, data }: Pick<Options, 'store' | 'data'>): string {
  return store ?? (data === IN_MEMORY ? IN_MEMORY : join(data, 'sluice.db'))
}

/**
 * Fails with a CodedError `STORE_ABSENT` when a store in a file is not there and its sealing key is: a new store in its place
 * would hide that it is gone.
 */
export function mustNotBeLost(address: string, folder: string | undefined): void {
  if (isPostgresUrl(address) || address === IN_MEMORY || folder === undefined || existsSync(address)) return
  if (!existsSync(join(folder, 'seal.key'))) return
  const message = `there is no store ${address}, but ${folder} has the sealing key of one: put it back ("sluice restore"), name the right place with --data or --store, or begin an empty one with --new-store`
  throw new CodedError('STORE_ABSENT', message)
}

/** May other processes have the same store open? */
export function isShared(address: string): boolean {
  return isPostgresUrl(address)
}
