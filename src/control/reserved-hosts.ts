import type { StoreReader } from '../store/store.js'

/** Where the names of reserved domains are unique. */
const DOMAIN_SPACE = 'domain'

/** Id of the reserved domain that covers a host: of its own name, else of the nearest wildcard above it. */
export async function keeperOfHost(reader: StoreReader, host: string): Promise<string | undefined> {
  const own = await reader.keeperOf(DOMAIN_SPACE, host)
  if (own !== undefined) return own.id
  for (let dot = host.indexOf('.'); dot !== -1; dot = host.indexOf('.', dot + 1)) {
    const wildcard = await reader.keeperOf(DOMAIN_SPACE, `*${host.slice(dot)}`)
    if (wildcard !== undefined) return wildcard.id
  }
  return undefined
}
