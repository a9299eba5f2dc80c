/** Why an exchange or a byte pipe ended early. One closed set on every engine; `proxy/failures` maps it to status and code. */
export type Failure =
  | 'client-gone'
  | 'client-malformed'
  | 'client-timeout'
  | 'client-reset-flood'
  | 'too-large'
  | 'draining'
  | 'overloaded'
  | 'dial-refused'
  | 'dial-timeout'
  | 'dial-tls'
  | 'no-tunnel'
  | 'upstream-malformed'
  | 'upstream-timeout'
  | 'upstream-gone'
  | 'internal'

/** Facts of the accepted connection; plain values, so that a policy never holds a socket. */
export interface ConnectionFacts {
  readonly id: number
  readonly listener: string
  readonly peer: { readonly address: string; readonly port: number }
  readonly local: { readonly address: string; readonly port: number }
  /** The socket's own two ends, where a PROXY header has put others into `peer` and `local`. */
  readonly via?: {
    readonly peer: { readonly address: string; readonly port: number }
    readonly local: { readonly address: string; readonly port: number }
  }
  /** Wall clock, milliseconds since the epoch. */
  readonly startedAt: number
  /** Bytes from and to the client so far; read live. */
  readonly bytesIn: number
  readonly bytesOut: number
  readonly tls?: {
    readonly sni?: string
    readonly alpn?: string
    readonly version: string
    readonly cipher: string
    /** DER of what the client showed, verified or not. */
    readonly clientCertificate?: Uint8Array
    /** True when the authorities of the listener's entry vouch for `clientCertificate`. Left out: none was asked for. */
    readonly clientVerified?: boolean
    /** DER of what the client was shown. */
    readonly serverCertificate?: Uint8Array
    readonly resumed: boolean
  }
}
