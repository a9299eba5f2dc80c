import { respond } from '../../../flow/verdict.js'
import type { Challenge } from '../challenge.js'
import { readObject } from '../json.js'

/** Longer bodies hold events. */
const XERO_MAX_LENGTH = 512

/** Xero's intent to receive: a signed delivery without events, answered by 200 and nothing else. */
export const xeroIntent: Challenge = ({ body }) => {
  if (body.length > XERO_MAX_LENGTH) return undefined
  const { events, entropy } = readObject(body) ?? {}
  return Array.isArray(events) && events.length === 0 && typeof entropy === 'string' ? respond(200) : undefined
}
