import type { Lookup } from '../names/lookups.js'
import type { NamesOptions } from '../names/names.js'
import type { OutboundError, OutboundRequest, OutboundResponse } from './answer.js'

/** What the thread begins with. */
export interface OutboundThreadData {
  readonly allowPrivate: boolean
  readonly authorities?: readonly string[]
  readonly names: NamesOptions
}

/** To the thread: a request, or that its answer is no longer awaited. */
export type OutboundOrder =
  | { readonly number: number; readonly request: Omit<OutboundRequest, 'signal'> }
  | { readonly number: number; readonly request?: undefined }

/** From the thread: the answer to a request, or a name that was looked up. */
export type OutboundReply =
  | { readonly number: number; readonly answer: OutboundResponse | OutboundError }
  | { readonly looked: Lookup }
