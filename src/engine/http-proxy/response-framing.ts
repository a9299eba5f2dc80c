import type { Framing } from '../../exchange/body.js'
import type { HeaderList } from '../../exchange/headers.js'

const NONE: Framing = { kind: 'none' }
const OPEN: Framing = { kind: 'open' }
const DIGITS = /^\d{1,15}$/

/**
 * How an answer is framed (RFC 9112 6.3), or undefined when its head contradicts itself: several lengths, a length
 * beside an encoding, an encoding other than `chunked`.
 */
export function responseFraming(status: number, headers: HeaderList): Framing | undefined {
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
  if (length !== undefined && (encoding !== undefined || !DIGITS.test(length))) return undefined
  if (encoding !== undefined && encoding !== 'chunked') return undefined
  if (status === 204) return NONE
  if (length !== undefined) return { kind: 'length', bytes: Number(length) }
  return status === 304 ? NONE : OPEN
}
