/**
 * A strict reader of HTTP/1.1 messages (RFC 9112) over text in which one character is one byte. It forgives nothing:
 * what it accepts, every server reads in the same way.
 */
export interface Message {
  /** Request line or status line. */
  readonly line: string
  readonly headers: readonly (readonly [name: string, value: string])[]
  readonly framing: 'none' | 'length' | 'chunked' | 'until-close'
  readonly body: string
  readonly trailers: readonly (readonly [name: string, value: string])[]
  /** Index behind the last byte. */
  readonly end: number
}

export class MalformedMessage extends Error {}

const REQUEST_LINE = /^[!#$%&'*+\-.^_`|~0-9A-Za-z]+ [\x21-\x7e]+ HTTP\/1\.[01]$/
const STATUS_LINE = /^HTTP\/1\.1 [1-5]\d\d [\t\x20-\x7e\x80-\xff]*$/
const FIELD =
  /^([!#$%&'*+\-.^_`|~0-9A-Za-z]+):[ \t]*((?:[\x21-\x7e\x80-\xff](?:[\t\x20-\x7e\x80-\xff]*[\x21-\x7e\x80-\xff])?)?)[ \t]*$/
const CHUNK = /^([0-9A-Fa-f]{1,12})$/

/** The request at `from`; undefined when it is not complete. Throws `MalformedMessage`. */
export function readRequest(text: string, from: number): Message | undefined {
  const head = readHead(text, from, REQUEST_LINE)
  if (head === undefined) return undefined
  if (values(head.headers, 'host').length !== 1) throw new MalformedMessage(`not one Host in ${head.line}`)
  return readBody(text, head, 'none', false)
}

/** The response at `from` to a request with this method. `ended`: the peer closed, so nothing more comes. */
export function readResponse(text: string, from: number, method: string, ended: boolean): Message | undefined {
  const head = readHead(text, from, STATUS_LINE)
  if (head === undefined) return undefined
  const status = Number(head.line.slice(9, 12))
  if (status < 200 || status === 204 || status === 304 || method === 'HEAD') {
    return { ...head, framing: 'none', body: '', trailers: [], end: head.end }
  }
  return readBody(text, head, 'until-close', ended)
}

export function statusOf(response: Message): number {
  return Number(response.line.slice(9, 12))
}

/** All values of a field, in order. */
export function values(headers: Message['headers'], name: string): string[] {
  return headers.filter(([field]) => field.toLowerCase() === name.toLowerCase()).map(([, value]) => value)
}

type Head = Pick<Message, 'line' | 'headers' | 'end'>

function readHead(text: string, from: number, grammar: RegExp): Head | undefined {
  const end = text.indexOf('\r\n\r\n', from)
  if (end === -1) return undefined
  // A copy: a slice would keep everything that ever came on the connection in memory.
  const head = Buffer.from(text.slice(from, end), 'latin1').toString('latin1')
  const [line = '', ...fields] = head.split('\r\n')
  if (!grammar.test(line)) throw new MalformedMessage(`start line ${JSON.stringify(line.slice(0, 200))}`)
  return { line, headers: readFields(fields), end: end + 4 }
}

function readFields(lines: readonly string[]): [string, string][] {
  return lines.map((line) => {
    const match = FIELD.exec(line)
    if (match === null) throw new MalformedMessage(`field ${JSON.stringify(line.slice(0, 200))}`)
    return [match[1] as string, match[2] as string]
  })
}

function readBody(text: string, head: Head, otherwise: 'none' | 'until-close', ended: boolean): Message | undefined {
  const lengths = values(head.headers, 'content-length')
  const codings = values(head.headers, 'transfer-encoding')
  if (lengths.length + codings.length > 1) throw new MalformedMessage(`framed twice: ${head.line}`)
  if (codings.length === 1) {
    if (codings[0] !== 'chunked') throw new MalformedMessage(`coding ${codings[0]}`)
    return readChunked(text, head)
  }
  if (lengths.length === 0) {
    if (otherwise === 'none') return { ...head, framing: 'none', body: '', trailers: [] }
    if (!ended) return undefined
    return { ...head, framing: 'until-close', body: text.slice(head.end), trailers: [], end: text.length }
  }
  if (!/^\d{1,15}$/.test(lengths[0] as string)) throw new MalformedMessage(`length ${lengths[0]}`)
  const end = head.end + Number(lengths[0])
  if (end > text.length) return undefined
  return { ...head, framing: 'length', body: text.slice(head.end, end), trailers: [], end }
}

function readChunked(text: string, head: Head): Message | undefined {
  let at = head.end
  let body = ''
  for (;;) {
    const lineEnd = text.indexOf('\r\n', at)
    if (lineEnd === -1) return undefined
    const size = CHUNK.exec(text.slice(at, lineEnd))
    if (size === null) throw new MalformedMessage(`chunk line ${JSON.stringify(text.slice(at, lineEnd).slice(0, 200))}`)
    const bytes = Number.parseInt(size[1] as string, 16)
    at = lineEnd + 2
    if (bytes === 0) break
    if (at + bytes + 2 > text.length) return undefined
    if (text.slice(at + bytes, at + bytes + 2) !== '\r\n') throw new MalformedMessage('no CRLF behind a chunk')
    body += text.slice(at, at + bytes)
    at += bytes + 2
  }
  if (text.startsWith('\r\n', at)) return { ...head, framing: 'chunked', body, trailers: [], end: at + 2 }
  const end = text.indexOf('\r\n\r\n', at)
  if (end === -1) return undefined
  return { ...head, framing: 'chunked', body, trailers: readFields(text.slice(at, end).split('\r\n')), end: end + 4 }
}
