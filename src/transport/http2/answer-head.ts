import { createHash } from 'node:crypto'
import type { OutgoingHttpHeaders, ServerHttp2Stream } from 'node:http2'
import type { HeaderList } from '../../flow/headers.js'
import { isEngineField, writableFields } from '../fields.js'

/** Fields of a connection that HTTP/2 does not have (RFC 9113 8.2.2), beside those of the engine. */
const OF_A_CONNECTION = new Set(['proxy-connection', 'upgrade', 'te', 'http2-settings'])
/** RFC 6455 1.3. */
const WEBSOCKET_GUID = '258EAFA5-E914-47DA-95CA-C5AB0DC85B11'

/** The fields that may go out, as node:http2 takes them: lower-case names, values of one name in their order. */
export function answerFields(list: HeaderList): OutgoingHttpHeaders {
  const fields: OutgoingHttpHeaders = Object.create(null) as OutgoingHttpHeaders
  const writable = writableFields(list)
  for (let i = 0; i < writable.length; i += 2) {
    const name = (writable[i] as string).toLowerCase()
    if (isEngineField(name) || OF_A_CONNECTION.has(name)) continue
    // White space around a value makes the whole message malformed here (RFC 9113 8.2.1).
    const value = (writable[i + 1] as string).trim()
    const before = fields[name]
    if (before === undefined) fields[name] = value
    else if (Array.isArray(before)) before.push(value)
    else fields[name] = [String(before), value]
  }
  return fields
}

/** What `fields` take as HTTP/1.1 text, for the log. */
export function textLength(fields: OutgoingHttpHeaders): number {
  let length = 0
  for (const name in fields) {
    const value = fields[name]
    for (const one of Array.isArray(value) ? value : [value]) length += name.length + String(one).length + 4
  }
  return length
}

/** Sends a final head. A field that node:http2 takes only once is sent with its values in a list (RFC 9110 5.3). */
export function sendHead(
  stream: ServerHttp2Stream,
  fields: OutgoingHttpHeaders,
  options: { endStream: boolean; waitForTrailers: boolean }
): void {
  try {
    stream.respond(fields, options)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ERR_HTTP2_HEADER_SINGLE_VALUE') throw error
    for (const name in fields) {
      const value = fields[name]
      if (Array.isArray(value) && name !== 'set-cookie') fields[name] = value.join(', ')
    }
    stream.respond(fields, options)
  }
}

/** The head of an upgrade that was accepted for us, without what only HTTP/1.1 says; undefined: it was not accepted (RFC 6455 4.1). */
export function websocketFields(list: HeaderList, key: string): OutgoingHttpHeaders | undefined {
  const fields = answerFields(list)
  const accept = createHash('sha1')
    .update(key + WEBSOCKET_GUID)
    .digest('base64')
  if (fields['sec-websocket-accept'] !== accept) return undefined
  delete fields['sec-websocket-accept']
  return fields
}
