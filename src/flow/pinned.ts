import type { AddressRules } from '../lib/ip.js'

/** What a flow may look up in the configuration that it is pinned to. */
export interface PinnedUnits {
  /** The networks of an IP policy; undefined when there is none with this id: it allows nobody. */
  ipPolicy(id: string): AddressRules | undefined
  /** The value of a secret by the names of its vault and of itself. */
  secret(vault: string, name: string): string | undefined
  /** Is there an entry for this host, and port if one is given, that only policies lead to? */
  hasInternal(layer: 'http' | 'tcp', host: string, port: number | undefined): boolean
}

/** A configuration in which there is nothing. */
export const NO_UNITS: PinnedUnits = {
  ipPolicy: () => undefined,
  secret: () => undefined,
  hasInternal: () => false
}

const INTERNAL = '.internal'

/** Is this the host of an entry that no client reaches, only policies? `host`: lower-case. */
export function isInternal(host: string): boolean {
  return host.endsWith(INTERNAL)
}
