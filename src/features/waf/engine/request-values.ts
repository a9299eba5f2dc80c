import type { HeaderList } from '../../../flow/headers.js'
import { readUrlencoded } from '../bodies/urlencoded.js'
import { hexByte } from '../bytes.js'
import { Target } from './target.js'
import type { Transaction } from './transaction.js'

/** Head of a request as the rules see it. All texts are Latin-1, one code unit a byte. */
export interface RequestFacts {
  readonly id: string
  readonly method: string
  /** Target as received. */
  readonly target: string
  /** `HTTP/1.1` */
  readonly protocol: string
  readonly headers: HeaderList
  readonly clientAddress: string
  readonly clientPort: number
  readonly serverName: string
  readonly serverPort: number
}

/** Sets the variables of the first phase. */
export function setRequestHead(transaction: Transaction, facts: RequestFacts): void {
  const { method, target, protocol, headers } = facts
  const uri = withoutOrigin(target)
  const mark = uri.indexOf('?')
  const query = mark < 0 ? '' : uri.slice(mark + 1)
  const filename = decodePath(mark < 0 ? uri : uri.slice(0, mark))
  transaction.setOne('UNIQUE_ID', facts.id)
  transaction.setOne('REQUEST_METHOD', method)
  transaction.setOne('REQUEST_LINE', `${method} ${target} ${protocol}`)
  transaction.setOne('REQUEST_PROTOCOL', protocol)
  transaction.setOne('REQUEST_URI_RAW', target)
  transaction.setOne('REQUEST_URI', uri)
  transaction.setOne('REQUEST_FILENAME', filename)
  transaction.setOne(
    'REQUEST_BASENAME',
    filename.slice(Math.max(filename.lastIndexOf('/'), filename.lastIndexOf('\\')) + 1)
  )
  transaction.setOne('QUERY_STRING', query)
  transaction.setOne('REMOTE_ADDR', facts.clientAddress)
  transaction.setOne('REMOTE_PORT', String(facts.clientPort))
  transaction.setOne('SERVER_NAME', facts.serverName)
  transaction.setOne('SERVER_PORT', String(facts.serverPort))
  setFields(transaction, 'REQUEST_HEADERS', headers)
  setCookies(transaction, headers)
  const processor = bodyProcessor(readField(headers, 'content-type'))
  transaction.setOne('REQBODY_PROCESSOR', processor)
  const { values } = readUrlencoded(Buffer.from(query, 'latin1'))
  setArguments(transaction, 'ARGS_GET', values)
  transaction.setOne('FILES_COMBINED_SIZE', '0')
}

/** Returns the first value of a header field, '' without it. `name` is in lower case. */
export function readField(headers: HeaderList, name: string): string {
  for (let i = 0; i < headers.length; i += 2) if (headers[i]?.toLowerCase() === name) return headers[i + 1] as string
  return ''
}

/** Sets a collection of header fields, and that of their names. */
export function setFields(transaction: Transaction, collection: string, headers: HeaderList): void {
  const values: Target[] = []
  const names: Target[] = []
  for (let i = 0; i < headers.length; i += 2) {
    const [name, value] = [headers[i] as string, headers[i + 1] as string]
    values.push(new Target(collection, name, value))
    names.push(new Target(`${collection}_NAMES`, name, name))
  }
  transaction.set(collection, values)
  transaction.set(`${collection}_NAMES`, names)
}

/** Sets the arguments of the query or of the body, and the collections of all arguments. */
export function setArguments(
  transaction: Transaction,
  collection: 'ARGS_GET' | 'ARGS_POST',
  values: readonly { readonly name: string; readonly value: string }[]
): void {
  transaction.set(collection, () => values.map(({ name, value }) => new Target(collection, name, value)))
  transaction.set(`${collection}_NAMES`, () => values.map(({ name }) => new Target(`${collection}_NAMES`, name, name)))
  const earlier = collection === 'ARGS_POST' ? transaction.collection('ARGS') : []
  const all = [...earlier, ...values.map(({ name, value }) => new Target('ARGS', name, value))]
  transaction.set('ARGS', all)
  transaction.set('ARGS_NAMES', () => all.map(({ member }) => new Target('ARGS_NAMES', member, member)))
  const size = all.reduce((sum, { member, value }) => sum + member.length + value.length, 0)
  transaction.setOne('ARGS_COMBINED_SIZE', String(size))
}

function setCookies(transaction: Transaction, headers: HeaderList): void {
  const values: Target[] = []
  const names: Target[] = []
  for (let i = 0; i < headers.length; i += 2) {
    if (headers[i]?.toLowerCase() !== 'cookie') continue
    for (const pair of (headers[i + 1] as string).split(';')) {
      const text = pair.trim()
      if (text === '') continue
      const equals = text.indexOf('=')
      const name = equals < 0 ? text : text.slice(0, equals)
      values.push(new Target('REQUEST_COOKIES', name, equals < 0 ? '' : text.slice(equals + 1)))
      names.push(new Target('REQUEST_COOKIES_NAMES', name, name))
    }
  }
  transaction.set('REQUEST_COOKIES', values)
  transaction.set('REQUEST_COOKIES_NAMES', names)
}

/** Returns a target without its scheme and authority (RFC 9112 3.2.2). */
function withoutOrigin(target: string): string {
  const scheme = target.indexOf('://')
  const slash = target.indexOf('/')
  if (scheme <= 0 || slash !== scheme + 1) return target
  const path = target.indexOf('/', scheme + 3)
  return path < 0 ? '/' : target.slice(path)
}

/** Decodes `%HH` once. `+` stays. */
function decodePath(path: string): string {
  if (!path.includes('%')) return path
  let decoded = ''
  let from = 0
  for (let at = path.indexOf('%'); at >= 0; at = path.indexOf('%', at + 1)) {
    const byte = hexByte(path, at + 1)
    if (byte < 0) continue
    decoded += path.slice(from, at) + String.fromCharCode(byte)
    from = at + 3
    at += 2
  }
  return decoded + path.slice(from)
}

/** Returns the reader of a body by its media type; '' if there is none. */
function bodyProcessor(contentType: string): string {
  const semicolon = contentType.indexOf(';')
  const media = (semicolon < 0 ? contentType : contentType.slice(0, semicolon)).trim().toLowerCase()
  if (media === 'application/x-www-form-urlencoded') return 'URLENCODED'
  if (media === 'multipart/form-data') return 'MULTIPART'
  if (media === 'application/json' || (media.startsWith('application/') && media.endsWith('+json'))) return 'JSON'
  if (media === 'text/xml' || media === 'application/xml' || media.endsWith('+xml')) return 'XML'
  return ''
}
