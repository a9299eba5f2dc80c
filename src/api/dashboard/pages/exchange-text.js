/** Exchanges as texts: the command that sends one again, and what is edited of one. */

import { shell } from './api.js'

export const REDACTED = '[redacted]'

/** Fields that curl makes by itself, and those that belong to a connection. */
const MADE = new Set(['content-length', 'transfer-encoding', 'connection', 'keep-alive', 'sluice-explain'])

/**
 * Names and values by turns as pairs.
 * @param {readonly string[]} fields
 * @returns {[string, string][]}
 */
export function pairsOf(fields) {
  /** @type {[string, string][]} */
  const pairs = []
  for (let i = 0; i + 1 < fields.length; i += 2) pairs.push([fields[i] ?? '', fields[i + 1] ?? ''])
  return pairs
}

/**
 * The command that sends the request of an exchange again, to the listener that took it. What was redacted is a variable of the
 * shell.
 * @param {any} exchange
 */
export function curlOfExchange({ method, url, http_version: version, request, connection }) {
  const parts = ['curl', '-i']
  const { body, headers } = request
  if (method === 'HEAD') parts.push('--head')
  else if (method !== (body === null ? 'GET' : 'POST')) parts.push('-X', shell(method))
  if (version === '1.0') parts.push('--http1.0')
  if (version === '2') parts.push('--http2')
  const { hostname, host, port, protocol } = new URL(url)
  const asked = Number(port || (protocol === 'https:' ? 443 : 80))
  const { ip, port: own } = connection.server
  const address = ip.includes(':') ? `[${ip}]` : ip
  if (asked !== own || hostname !== address) parts.push('--connect-to', shell(`::${address}:${own}`))
  for (const [name, value] of pairsOf(headers)) {
    const small = name.toLowerCase()
    if (MADE.has(small) || name.startsWith(':') || (small === 'host' && value === host)) continue
    parts.push(
      '-H',
      value.includes(REDACTED) ? variable(name, value) : shell(value === '' ? `${name};` : `${name}: ${value}`)
    )
  }
  const bytes = bytesOf(body)
  if (bytes !== undefined) parts.push('--data-binary', '@-')
  else if (body?.text !== undefined) parts.push('--data-raw', shell(body.text))
  // curl itself takes brackets and braces for lists of URLs, and resolves dots.
  if (/[[\]{}]/.test(url)) parts.push('--globoff')
  if (/\/\./.test(url)) parts.push('--path-as-is')
  parts.push(shell(url))
  return bytes === undefined ? parts.join(' ') : `printf %s ${shell(bytes)} | base64 -d | ${parts.join(' ')}`
}

/**
 * A field whose value was redacted. The client has chosen its name: the prefix keeps it from naming a variable that the reader's shell
 * has for another purpose.
 * @param {string} name
 * @param {string} value
 */
function variable(name, value) {
  const own = `"$SECRET_${name.toUpperCase().replace(/[^A-Z0-9]/g, '_')}"`
  const words = `${name}: ${value}`.split(REDACTED).map((text) => (text === '' ? '' : shell(text)))
  return words.join(own)
}

/**
 * The bytes of a body that no text of a command should hold, because a terminal obeys them or a shell cannot keep them, in base64;
 * undefined: it is text.
 * @param {any} body
 * @returns {string | undefined}
 */
function bytesOf(body) {
  if (body?.text === undefined) return body?.base64
  // biome-ignore lint/suspicious/noControlCharactersInRegex: these are the ones that must not be pasted
  if (!/[\u0000-\u0009\u000b-\u001f\u007f-\u009f]/.test(body.text)) return undefined
  return btoa(Array.from(new TextEncoder().encode(body.text), (byte) => String.fromCharCode(byte)).join(''))
}

/**
 * Parts of a request that its command lacks; undefined if the command is complete.
 * @param {any} exchange
 * @returns {string | undefined}
 */
export function missingOf({ url, request, bytes_in: bytes }) {
  const { headers, body } = request
  const whats = []
  if (pairsOf(headers).some(([, value]) => value.includes(REDACTED))) whats.push('secret headers are shell variables')
  if (url.includes(REDACTED)) whats.push('a part of the URL is secret')
  if (body?.text?.includes(REDACTED)) whats.push('parts of the body are secret')
  if (body !== null && body.whole === false) whats.push('the body is cut off')
  const declared = pairsOf(headers).find(([name]) => name.toLowerCase() === 'content-length')?.[1]
  if (body === null && bytes > 0 && declared !== undefined && declared !== '0') whats.push('the body was not recorded')
  return whats.length === 0 ? undefined : `${whats.join('; ')}.`
}

/**
 * Fields as lines of a text.
 * @param {readonly string[]} headers
 */
export function linesOfHeaders(headers) {
  return pairsOf(headers)
    .map(([name, value]) => `${name}: ${value}`)
    .join('\n')
}

/**
 * Differences between two texts of fields, in the form of the API: null takes a field away. Throws an Error for a line that is
 * none, and for a value that is still redacted where others of its name have changed.
 * @param {string} before
 * @param {string} after
 * @returns {Record<string, string | string[] | null>}
 */
export function headerEdits(before, after) {
  const [old, now] = [byName(before), byName(after)]
  /** @type {Record<string, string | string[] | null>} */
  const edits = {}
  for (const name of old.keys()) if (!now.has(name)) edits[name] = null
  for (const [name, values] of now) {
    if (JSON.stringify(old.get(name)) === JSON.stringify(values)) continue
    if (values.some((value) => value.includes(REDACTED)))
      throw new Error(`The value of ${name} is redacted: enter it in full, or leave the header unchanged.`)
    edits[name] = values.length === 1 ? (values[0] ?? '') : values
  }
  return edits
}

/** @param {string} text */
function byName(text) {
  /** @type {Map<string, string[]>} */
  const found = new Map()
  for (const line of text.split(/\r?\n/)) {
    if (line.trim() === '') continue
    const colon = line.indexOf(':', 1)
    if (colon === -1) throw new Error(`"${line}" is not a header: write name: value.`)
    const name = line.slice(0, colon).trim().toLowerCase()
    found.set(name, [...(found.get(name) ?? []), line.slice(colon + 1).trim()])
  }
  return found
}

/**
 * Gives the reader a file.
 * @param {string} name
 * @param {string} text
 * @param {string} type
 */
export function saveFile(name, text, type) {
  const link = document.createElement('a')
  link.href = URL.createObjectURL(new Blob([text], { type }))
  link.download = name
  link.click()
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000)
}
