import type { HeaderList } from './headers.js'

/** Early end of an exchange: a response of the proxy, a closed connection, or forwarding to another entry. */
export type Verdict =
  | {
      readonly kind: 'respond'
      readonly status: number
      readonly headers: HeaderList
      readonly body?: Uint8Array
      /** Sent as `sluice-error-code`; undefined for responses that are not a rejection (custom-response, redirect). */
      readonly code?: string
      /** Closes the connection after the response, without waiting for the rest of the request. */
      readonly close?: boolean
    }
  | { readonly kind: 'close'; readonly how: 'fin' | 'reset' }
  | {
      readonly kind: 'forward'
      /** Host of an internal entry, in lower case. */
      readonly host: string
      /** @default the port that the host alone means */
      readonly port?: number
    }

/** Returns a response; headers are a flat list of names and values. */
export function respond(status: number, headers: HeaderList = [], body?: Uint8Array): Verdict {
  return body === undefined ? { kind: 'respond', status, headers } : { kind: 'respond', status, headers, body }
}

/** An error with its response status: a row of an error table. */
export interface AnsweredError {
  readonly status: number
  readonly code: string
}

/** Returns a response that rejects the exchange with a `sluice-error-code`. The client's body is created when the response is sent. */
export function refuse({ status, code }: AnsweredError, headers: HeaderList = []): Verdict {
  return { kind: 'respond', status, headers, code }
}

/** Closes the connection without a response, in order (FIN). */
export const closeConnection: Verdict = { kind: 'close', how: 'fin' }
