import type { Framing } from '../../flow/exchange.js'
import type { HeaderList } from '../../flow/headers.js'

/** What the head of an answer says about the bytes behind it. */
export interface ResponseFraming {
  readonly framing: Framing
  /** How many follow. Undefined: chunks; Infinity: all until the end of the connection. */
  readonly follows: number | undefined
}

const NONE: ResponseFraming = { framing: { kind: 'none' }, follows: 0 }
const CHUNKED: ResponseFraming = { framing: { kind: 'open' }, follows: undefined }
const UNTIL_CLOSE: ResponseFraming = { framing: { kind: 'open' }, follows: Number.POSITIVE_INFINITY }
const DIGITS = /^\d{1,15}$/

/**
 * How an answer is framed (RFC 9112 6.3), but for HEAD; or undefined when no final answer has this head: a 1xx status,
 * several lengths, a length beside an encoding, an encoding other than `chunked`.
 */
export function responseFraming(status: number, headers: HeaderList): ResponseFraming | undefined {
  let length: string | undefined
  let encoding: string | undefined
  for (let i = 0; i < headers.length; i += 2) {
    const name = headers[i] as string
    if (name.length === 14 && name.toLowerCase() === 'content-length') {
      if (length !== undefined) return undefined
      length = headers[i + 1] as string
    } else if (name.length === 17 && name.toLowerCase() === 'transfer-encoding') {
      if (encoding !== undefined) return undefined
      encoding = (headers[i + 1] as string).toLowerCase()
    }
  }
  if (status < 200 || (length !== undefined && (encoding !== undefined || !DIGITS.test(length)))) return undefined
  if (encoding !== undefined && encoding !== 'chunked') return undefined
  if (status === 204) return NONE
  if (length !== undefined) {
    const bytes = Number(length)
    return { framing: { kind: 'length', bytes }, follows: status === 304 ? 0 : bytes }
  }
  if (status === 304) return NONE
  return encoding === undefined ? UNTIL_CLOSE : CHUNKED
}
