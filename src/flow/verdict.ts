import type { HeaderList } from './headers.js'

/** What ends an exchange early: an answer of our own, a closed connection, or another entry that takes it from here. */
export type Verdict =
  | {
      readonly kind: 'respond'
      readonly status: number
      readonly headers: HeaderList
      readonly body?: Uint8Array
      /** Goes out as `sluice-error-code`; undefined for answers that are no refusal (custom-response, redirect). */
      readonly code?: string
      /** The connection ends with the answer: the rest of the request is not waited for. */
      readonly close?: boolean
    }
  | { readonly kind: 'close'; readonly how: 'fin' | 'reset' }
  | {
      readonly kind: 'forward'
      /** An internal entry, lower-case. */
      readonly host: string
      /** Absent: the port that the host alone means. */
      readonly port?: number
    }

/** An answer with headers as name and value by turns. */
export function respond(status: number, headers: HeaderList = [], body?: Uint8Array): Verdict {
  return body === undefined ? { kind: 'respond', status, headers } : { kind: 'respond', status, headers, body }
}

/** An error with the status of its answer: a row of a table. */
export interface AnsweredError {
  readonly status: number
  readonly code: string
}

/** An answer that refuses the exchange and says so in `sluice-error-code`. The body that a client gets is made when the answer is sent. */
export function refuse({ status, code }: AnsweredError, headers: HeaderList = []): Verdict {
  return { kind: 'respond', status, headers, code }
}

/** Ends the connection without an answer, in order (FIN). */
export const closeConnection: Verdict = { kind: 'close', how: 'fin' }
