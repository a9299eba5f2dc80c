import type { RequestHead } from '../flow/exchange.js'
import { HeaderFields } from '../flow/headers.js'
import type { ExchangeFields } from './access-log.js'
import { redactUrl } from './redaction.js'

const MONTHS = ['Jan', 'Feb', 'Mar', 'Apr', 'May', 'Jun', 'Jul', 'Aug', 'Sep', 'Oct', 'Nov', 'Dec']

/**
 * Formats a line in the `combined` format of Apache and nginx, with its line end: client, UTC time (`at`: milliseconds since the Unix
 * epoch), request line, status, bytes, Referer and User-Agent. Sensitive values are redacted, and client data cannot end a line or a
 * quotation.
 */
export function combinedLine(fields: ExchangeFields, { headers, method, version }: RequestHead, at: number): string {
  const read = new HeaderFields(headers)
  const { client, path, query, status, bytes_out: bytes } = fields
  const target = `${String(path ?? '')}${typeof query === 'string' && query !== '' ? `?${query}` : ''}`
  const quoted = (text: string | undefined) => `"${text === undefined || text === '' ? '-' : escaped(text)}"`
  const referer = read.get('referer')
  return `${String(client)} - - [${dateText(at)}] ${quoted(`${method} ${target} HTTP/${version}`)} ${String(status)} ${String(bytes)} ${quoted(referer === undefined ? undefined : redactUrl(referer))} ${quoted(read.get('user-agent'))}\n`
}

function dateText(at: number): string {
  const date = new Date(at)
  const two = (number: number) => String(number).padStart(2, '0')
  const day = `${two(date.getUTCDate())}/${MONTHS[date.getUTCMonth()]}/${date.getUTCFullYear()}`
  return `${day}:${two(date.getUTCHours())}:${two(date.getUTCMinutes())}:${two(date.getUTCSeconds())} +0000`
}

/** Escapes like nginx: quotation marks, backslashes and bytes other than visible ASCII become \xHH. */
function escaped(text: string): string {
  return text.replace(/["\\]|[^ -~]/gu, (character) =>
    [...Buffer.from(character)].map((byte) => `\\x${byte.toString(16).toUpperCase().padStart(2, '0')}`).join('')
  )
}
