import type { CaaRecord } from 'node:dns'
import { Resolver } from 'node:dns/promises'
import { codeOf } from '../../lib/coded-error.js'
import type { Lookup } from './requirements.js'

/** What resolvers say when there is nothing, as opposed to nobody who answers. */
const NOTHING = new Set(['ENODATA', 'ENOTFOUND'])
const TIMEOUT = 3_000
const TRIES = 2

/** Asks the resolvers of the system, or `servers` (addresses, with a port if it is not 53). */
export function systemLookup(servers?: readonly string[]): Lookup {
  const resolver = new Resolver({ timeout: TIMEOUT, tries: TRIES })
  if (servers !== undefined) resolver.setServers(servers)
  return {
    cname: (name) => orNothing(resolver.resolveCname(name)),
    ns: (name) => orNothing(resolver.resolveNs(name)),
    addresses: async (name) => {
      const both = [orNothing(resolver.resolve4(name)), orNothing(resolver.resolve6(name))]
      return (await Promise.all(both)).flat()
    },
    async caa(name, tag) {
      const records = await orNothing(resolver.resolveCaa(name))
      const values = records.flatMap((record) => issuerOf(record, tag))
      // A name with CAA records of other kinds alone restricts nobody in this.
      return values.length === 0 ? undefined : values
    }
  }
}

/** The domain before parameters; ";" alone is nobody. */
function issuerOf(record: CaaRecord, tag: 'issue' | 'issuewild'): string[] {
  const value = record[tag]
  return value === undefined ? [] : [(value.split(';')[0] ?? '').trim().toLowerCase()]
}

async function orNothing<T>(asked: Promise<T[]>): Promise<T[]> {
  try {
    return await asked
  } catch (error) {
    if (NOTHING.has(codeOf(error) ?? '')) return []
    throw error
  }
}
