import type { ConnectionFacts } from './connection.js'
import type { Flow } from './flow.js'

/** What ends TLS on a connection whose bytes nobody has read yet. */
export interface Termination {
  /** PEM; absent: the certificate that the name of the client's choice has here. One object is one certificate. */
  readonly identity?: { readonly chain: string; readonly privateKey: string }
  readonly minVersion: 'TLSv1.2' | 'TLSv1.3'
  readonly maxVersion: 'TLSv1.2' | 'TLSv1.3'
  /** Absent: no certificate is asked for. */
  readonly clients?: {
    /** PEM texts, or ids of authorities; ids that are gone vouch for nobody. */
    readonly authorities: readonly string[]
    /** `verified`: the authorities vouch for it. `any`: it shows one. `requested`: it may show one. */
    readonly must: 'verified' | 'any' | 'requested'
  }
}

/** What came of it: the facts of the handshake, or a word for why there was none; the connection has ended then. */
type Terminated =
  | { readonly kind: 'secure'; readonly tls: NonNullable<ConnectionFacts['tls']> }
  | { readonly kind: 'failed'; readonly why: string }

/** Ends TLS on the connection of a flow; once. */
export type Terminate = (how: Termination) => Promise<Terminated>

const SLOT = 'exchange.termination'

/** Lets the policy of a flow end TLS. */
export function offerTermination(flow: Flow, terminate: Terminate): void {
  flow.derived[SLOT] = terminate
}

/** Takes the offer away from the flow, so that TLS ends once; undefined where it cannot end. */
export function takeTermination(flow: Flow): Terminate | undefined {
  const terminate = flow.derived[SLOT] as Terminate | undefined
  flow.derived[SLOT] = undefined
  return terminate
}
