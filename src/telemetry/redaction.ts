import type { Flow } from '../flow/flow.js'
import { PeerNames } from '../lib/peer-names.js'

/** Stands where a secret stood. */
export const REDACTED = '[redacted]'

/**
 * A name that holds one of these anywhere sounds like a secret: they are no part of ordinary words. The last ones are fields that carry a
 * proof or a certificate of the client (RFC 9449, RFC 9440), or a token, as browsers can send none elsewhere with a WebSocket.
 */
const ROOTS = (
  'accesskey api[-_]?key appkey assertion authcode authkey authoris authoriz bearer cookie credential hmac passcode passkey passphrase passw ' +
  'private saml secret sessid session signature token dpop (?:client|peer|ssl|tls)[-_]?cert(?:ificate)?(?![a-z._]) websocket-protocol'
).split(' ')
/** These count as a whole part of a name only: `api_key` and `apiKey` have the part `key`, `keyword` and `monkey` do not. */
const WORDS = (
  'auth authn authz code codes creds csrf jwe jws jwt key keys magic mfa nonce oauth otp pass pin pw pwd refresh sess sid sig sign sso ticket ' +
  'totp verifier wresult xsrf'
).split(' ')
/** Parts that make the `code` or `key` behind them an ordinary value: `status_code`, `sort_key`. */
const ORDINARY = (
  'area close country currency error exit http lang language postal reason region response result state status zip bucket cache foreign group ' +
  'order partition primary public shard sort'
).split(' ')
/** What identity providers send to the callback of a login beside the code: with both, an attacker could pass for the user. */
const GRANT = 'state'

const ROOT = new RegExp(ROOTS.join('|'), 'i')
const WORD = new Set(WORDS)
const BEHIND_ORDINARY = new Set(['code', 'codes', 'key', 'keys'])
const BEFORE = new Set(ORDINARY)
/** What this does not match holds no name that sounds like a secret. */
const SUSPECT = new RegExp([...ROOTS, ...WORDS].join('|'), 'i')
/** An escape of a letter, or one that may hide one. */
const ENCODED_LETTER = /%(?:25|[46][1-9a-f]|[57][0-9a])/i
/** Ends of parts: what is no letter or digit, and where a capital begins a word (`SAMLResponse`, `accessKey`). */
const PART_ENDS = /[^A-Za-z0-9]+|(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])/

/** Names that were judged. */
const judged = new PeerNames<boolean>()

/** Does what has this name (of a parameter, a field, a key) sound like a secret? */
export function isSensitive(name: string): boolean {
  if (!SUSPECT.test(name)) return false
  const known = judged.get(name)
  if (known !== undefined) return known
  const sensitive = judge(name)
  judged.remember(name, sensitive)
  return sensitive
}

function judge(name: string): boolean {
  if (ROOT.test(name)) return true
  const parts = name.split(PART_ENDS).map((part) => withoutLastDigits(part).toLowerCase())
  return parts.some((part, i) => WORD.has(part) && !(BEHIND_ORDINARY.has(part) && BEFORE.has(parts[i - 1] ?? '')))
}

/** Removes the number at the end of a part. A regular expression would look from each digit to the end of the run. */
function withoutLastDigits(part: string): string {
  let end = part.length
  while (end > 0 && isDigit(part.charCodeAt(end - 1))) end--
  return part.slice(0, end)
}

function isDigit(code: number): boolean {
  return code >= 0x30 && code <= 0x39
}

/** The query of a request without the values of parameters whose name sounds like a secret; undefined when there is none. */
export function shownQuery(flow: Flow | undefined): string | undefined {
  const query = flow?.request?.target.query
  return query === undefined ? undefined : redactQuery(query, flow?.reservedPath !== undefined)
}

/** A query as `shownQuery` shows it. `own`: of a path of logins. */
export function shownQueryOf(query: string, own: boolean): string {
  return redactQuery(query, own)
}

/** A text with a URL in it, such as that of `Referer` or `Location`, without the secrets of its query and fragment. */
export function redactUrl(text: string): string {
  const mark = text.search(/[?#]/)
  return mark === -1 ? text : text.slice(0, mark + 1) + redactQuery(text.slice(mark + 1), false)
}

/** `own`: of a path of logins. */
function redactQuery(query: string, own: boolean): string {
  if (!own && !SUSPECT.test(query) && !ENCODED_LETTER.test(query)) return query
  // Separators stay as they came; some servers take a semicolon for one.
  return query
    .split(/([&;])/)
    .map((pair) => {
      const equals = pair.indexOf('=')
      if (equals === -1 || equals === pair.length - 1) return pair
      const name = pair.slice(0, equals)
      const secret = isSensitive(decoded(name)) || (own && name.toLowerCase() === GRANT)
      return secret || holdsSecret(pair.slice(equals + 1), DEEPEST_VALUE) ? `${name}=${REDACTED}` : pair
    })
    .join('')
}

/** How often a value is decoded to find a query in it. */
const DEEPEST_VALUE = 3

/** Is the value a URL or a query, however often encoded, with a parameter that sounds like a secret? */
function holdsSecret(value: string, depth: number): boolean {
  const text = decoded(value)
  const pairs = text.split(/[?&;#]/)
  if (pairs.some((pair) => /^[^=]+=./.test(pair) && isSensitive(pair.slice(0, pair.indexOf('='))))) return true
  return depth > 0 && text !== value && holdsSecret(text, depth - 1)
}

/** As it stands where it is no encoding. */
function decoded(text: string): string {
  if (!text.includes('%')) return text
  try {
    return decodeURIComponent(text)
  } catch {
    // A `%` that begins no escape, or bytes that are no UTF-8: names in ASCII are read all the same.
    return text.replace(/%([2-7][0-9a-f])/gi, (_, hex: string) => String.fromCharCode(Number.parseInt(hex, 16)))
  }
}

const DEEPEST = 8

/** A copy of logged metadata without the values of keys that sound like secrets. */
export function redact(value: unknown, depth: number): unknown {
  if (depth > DEEPEST) return '[too deep]'
  if (Array.isArray(value)) return value.map((item) => redact(item, depth + 1))
  if (typeof value !== 'object' || value === null) return value
  const copy: [string, unknown][] = []
  for (const [key, item] of Object.entries(value))
    copy.push([key, isSensitive(key) ? REDACTED : redact(item, depth + 1)])
  return Object.fromEntries(copy)
}
