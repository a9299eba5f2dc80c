import type { KeyObject } from 'node:crypto'
import type { HeaderFields } from '../../flow/headers.js'
import type { Failure, Finding } from './finding.js'

/** What a scheme sees of a request. */
export interface WebhookRequest {
  /** As it came. */
  readonly method: string
  /** Path and query as they came, before any normal form: senders sign what they wrote. */
  readonly target: string
  /** The URLs under which the sender may have known this place; see `public-urls.ts`. Built at each call. */
  urls(): readonly string[]
  readonly headers: HeaderFields
  readonly body: Uint8Array
  /** Wall clock, milliseconds since the epoch. */
  readonly now: number
}

/** Keys that senders publish. */
export interface SenderKeys {
  /** The public key of the certificate at `url`. Never rejects. */
  certificate(url: string, now: number): Promise<KeyObject | Failure>
}

/** Looks at one request. Neither throws nor rejects for anything that stands in a request. */
export type Verify = (request: WebhookRequest, keys: SenderKeys) => Finding | Promise<Finding>

/**
 * How a sender signs: turns the secret that is shared with it into what requests are looked at with. A text instead says
 * why the secret cannot be one of this scheme; it repeats nothing of it.
 */
export type Scheme = (secret: string) => Verify | string

/** The one value of a field that must stand once; a failure when it is absent or repeated. */
export function single(
  headers: HeaderFields,
  name: string
): { readonly value: string } | 'SIGNATURE_MISSING' | 'SIGNATURE_REPEATED' {
  const values = headers.values(name)
  if (values.length === 0) return 'SIGNATURE_MISSING'
  return values.length === 1 ? { value: values[0] as string } : 'SIGNATURE_REPEATED'
}
