import { join } from 'node:path'
import { IN_MEMORY } from '../config/fields.js'
import type { Options } from '../config/options.js'
import { isPostgresUrl } from '../lib/postgres-url.js'

/** Where the store of a process lies, as `openStore` takes it. */
export function storeAddress({ store, data }: Pick<Options, 'store' | 'data'>): string {
  return store ?? (data === IN_MEMORY ? IN_MEMORY : join(data, 'sluice.db'))
}

/** May other processes have the same store open? */
export function isShared(address: string): boolean {
  return isPostgresUrl(address)
}
