import { readOptionFile } from '../lib/files.js'
import type { OutboundParts } from '../lib/http-client/outbound.js'
import type { NamesOptions } from '../lib/names/names.js'
import type { Options } from '../options/options.js'

/** Where requests of policies and of events may go, and whom they trust, as the options want it. Fails with `FILE_UNREADABLE`. */
export async function outboundRules({
  outbound
}: Options): Promise<Pick<OutboundParts, 'allowPrivate' | 'authorities'>> {
  const { allow_private: allowPrivate, ca } = outbound
  return { allowPrivate, ...(ca === undefined ? {} : { authorities: [await readOptionFile(ca, 'outbound.ca')] }) }
}

/** Who answers names, as the options want it. */
export function namesOptions({ dns }: Options): NamesOptions {
  return { resolver: dns.resolver, servers: dns.servers }
}
