import type { Lookup } from '../names/lookups.js'
import type { NamesOptions } from '../names/names.js'
import type { OutboundError, OutboundRequest, OutboundResponse } from './answer.js'

/** Initial data of the thread. */
export interface OutboundThreadData {
  readonly allowPrivate: boolean
  readonly authorities?: readonly string[]
  readonly names: NamesOptions
}

/** Message to the thread: a request, or its cancellation. */
export type OutboundOrder =
  | { readonly number: number; readonly request: Omit<OutboundRequest, 'signal'> }
  | { readonly number: number; readonly request?: undefined }

/** Message from the thread: a response, or a name lookup. */
export type OutboundReply =
  | { readonly number: number; readonly answer: OutboundResponse | OutboundError }
  | { readonly looked: Lookup }
