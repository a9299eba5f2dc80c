import { flowSlot } from './flow.js'

/** Name and version of the rules of the web application firewall as they say, and SHA-256 of their files in hexadecimal. */
export interface RulesVersion {
  readonly signature: string
  readonly digest: string
}

/** Version of the rules that have examined the exchange, for its record. */
export const rulesVersionSlot = flowSlot<RulesVersion>('version of the rules of the firewall')
