import { createHash } from 'node:crypto'
import type { Position } from '../store/store.js'
import type { LiveTunnel } from './live-sources.js'

/**
 * Where an endpoint stands in their list: at its edge or tunnel, and there by a hash of its address. The id says just
 * that, so that an endpoint is found without an index and an id still works as a cursor when its endpoint is gone.
 */
export interface EndpointPlace extends Position {
  readonly tag: string
}

const FORM = /^ep_([0-9a-z]{1,9})_([0-9a-z]{1,9})_([0-9a-f]{16})$/
const TAG_DIGITS = 16
const RADIX = 36

export function placeOfAddress({ createdAt, sequence }: Position, address: string): EndpointPlace {
  const tag = createHash('sha256').update(address).digest('hex').slice(0, TAG_DIGITS)
  return { createdAt, sequence, tag }
}

/** The place of the endpoint of a tunnel. */
export function placeOfTunnel({ id, startedAt }: LiveTunnel): EndpointPlace {
  return placeOfAddress({ createdAt: startedAt, sequence: 0 }, id)
}

/** Digits of a time stamp until the year 5138, so that text sorts as numbers do. */
const TIME_DIGITS = 14

/** Text that is greater for what comes first; of places of tunnels. */
export function endpointRank({ createdAt, tag }: EndpointPlace): string {
  return `${String(createdAt).padStart(TIME_DIGITS, '0')}${tag}`
}

/** All ranks of tunnels that come at `from` or behind it are below this one. */
export function rankAbove({ createdAt, sequence, tag }: EndpointPlace): string {
  // An edge comes before all tunnels of the same millisecond.
  const last = sequence > 0 ? 'g' : `${tag}\0`
  return `${String(createdAt).padStart(TIME_DIGITS, '0')}${last}`
}

export function endpointId({ createdAt, sequence, tag }: EndpointPlace): string {
  return `ep_${createdAt.toString(RADIX)}_${sequence.toString(RADIX)}_${tag}`
}

/** Undefined when it is not the id of an endpoint. */
export function placeOfId(id: string): EndpointPlace | undefined {
  const [, createdAt, sequence, tag] = FORM.exec(id) ?? []
  if (createdAt === undefined || sequence === undefined || tag === undefined) return undefined
  return { createdAt: Number.parseInt(createdAt, RADIX), sequence: Number.parseInt(sequence, RADIX), tag }
}

/** Negative when `a` comes first: newest first, and the greatest tag first within one edge. */
export function comparePlaces(a: EndpointPlace, b: EndpointPlace): number {
  return comparePositions(a, b) || (a.tag < b.tag ? 1 : a.tag > b.tag ? -1 : 0)
}

export function comparePositions(a: Position, b: Position): number {
  return b.createdAt - a.createdAt || b.sequence - a.sequence
}
