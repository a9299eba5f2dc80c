import type { Flow } from '../flow/flow.js'
import { PeerNames } from '../lib/peer-names.js'

/** Replacement for a secret. */
export const REDACTED = '[redacted]'

/**
 * Parts that make a name sensitive anywhere in it, because ordinary words do not contain them. The last ones are fields with a proof or a
 * certificate of the client (RFC 9449, RFC 9440), or with a token that browsers cannot send elsewhere with a WebSocket.
 */
const ROOTS = (
  'accesskey api[-_]?key appkey assertion authcode authkey authoris authoriz bearer cookie credential hmac passcode passkey passphrase passw ' +
  'private saml secret sessid session signature token dpop (?:client|peer|ssl|tls)[-_]?cert(?:ificate)?(?![a-z._]) websocket-protocol'
).split(' ')
/** Words that make a name sensitive only as a complete part: `api_key` and `apiKey` have the part `key`; `keyword` and `monkey` do not. */
const WORDS = (
  'auth authn authz code codes creds csrf jwe jws jwt key keys magic mfa nonce oauth otp pass pin pw pwd refresh sess sid sig sign sso ticket ' +
  'totp verifier wresult xsrf'
).split(' ')
/** Parts that make a following `code` or `key` harmless: `status_code`, `sort_key`. */
const ORDINARY = (
  'area close country currency error exit http lang language postal reason region response result state status zip bucket cache foreign group ' +
  'order partition primary public shard sort'
).split(' ')
/** Parameter that identity providers send to a login callback beside the code: with both, an attacker could impersonate the user. */
const GRANT = 'state'

const ROOT = new RegExp(ROOTS.join('|'), 'i')
const WORD = new Set(WORDS)
const BEHIND_ORDINARY = new Set(['code', 'codes', 'key', 'keys'])
const BEFORE = new Set(ORDINARY)
/** Quick check: text without a match contains no sensitive name. */
const SUSPECT = new RegExp([...ROOTS, ...WORDS].join('|'), 'i')
/** Escape of a letter, or an escape that may hide one. */
const ENCODED_LETTER = /%(?:25|[46][1-9a-f]|[57][0-9a])/i
/** Boundaries of parts: characters other than letters and digits, and capitals that begin a word (`SAMLResponse`, `accessKey`). */
const PART_ENDS = /[^A-Za-z0-9]+|(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])/

/** Cache of judged names. */
const judged = new PeerNames<boolean>()

/** Returns true if a parameter, field or key with this name is likely to hold a secret. */
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

/** Removes the number at the end of a part. A loop, because a regular expression would rescan the digits from each position. */
function withoutLastDigits(part: string): string {
  let end = part.length
  while (end > 0 && isDigit(part.charCodeAt(end - 1))) end--
  return part.slice(0, end)
}

function isDigit(code: number): boolean {
  return code >= 0x30 && code <= 0x39
}

/** Returns the query of a request with sensitive values redacted; undefined if there is none. */
export function shownQuery(flow: Flow | undefined): string | undefined {
  const query = flow?.request?.target.query
  return query === undefined ? undefined : redactQuery(query, flow?.reservedPath !== undefined)
}

/** Redacts a query like `shownQuery`. `own`: the query belongs to a login path. */
export function shownQueryOf(query: string, own: boolean): string {
  return redactQuery(query, own)
}

/** Redacts query and fragment of a text with a URL, such as `Referer` or `Location`. */
export function redactUrl(text: string): string {
  const mark = text.search(/[?#]/)
  return mark === -1 ? text : text.slice(0, mark + 1) + redactQuery(text.slice(mark + 1), false)
}

/** `own`: the query belongs to a login path. */
function redactQuery(query: string, own: boolean): string {
  if (!own && !SUSPECT.test(query) && !ENCODED_LETTER.test(query)) return query
  // Separators are kept; some servers accept a semicolon as one.
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

/** Maximum number of times a value is decoded to find a query in it. */
const DEEPEST_VALUE = 3

/** Returns true if the value is a URL or query, possibly encoded several times, with a sensitive parameter. */
function holdsSecret(value: string, depth: number): boolean {
  const text = decoded(value)
  const pairs = text.split(/[?&;#]/)
  if (pairs.some((pair) => /^[^=]+=./.test(pair) && isSensitive(pair.slice(0, pair.indexOf('='))))) return true
  return depth > 0 && text !== value && holdsSecret(text, depth - 1)
}

/** Decodes a text; returns it unchanged if it is not encoded. */
function decoded(text: string): string {
  if (!text.includes('%')) return text
  try {
    return decodeURIComponent(text)
  } catch {
    // Invalid escapes or invalid UTF-8: escapes of ASCII are decoded anyway.
    return text.replace(/%([2-7][0-9a-f])/gi, (_, hex: string) => String.fromCharCode(Number.parseInt(hex, 16)))
  }
}

const DEEPEST = 8

/** Member of an object with the name of a variable of a request, as in the results of the firewall: `ARGS:q`. */
const NAMING = 'variable'
/** Members of the same object with the value of the variable. */
const VALUES = new Set(['data', 'value'])
/** A text member of JSON, of which the end may be missing. */
const JSON_PAIR = /"([^"\\]{1,128})"\s{0,8}:\s{0,8}"(?:[^"\\]|\\.)*"?/g

/** Returns a text of a request, such as a body or an argument, with the values of sensitive names in it redacted. */
export function redactText(text: string): string {
  return redactQuery(redactPairs(text), false)
}

/** Returns JSON text, which need not be whole, with the text values of sensitive names redacted. */
export function redactPairs(text: string): string {
  return text.replace(JSON_PAIR, (pair, name: string) => (isSensitive(name) ? `"${name}":"${REDACTED}"` : pair))
}

/** Returns a copy of logged metadata with sensitive values redacted. */
export function redact(value: unknown, depth: number): unknown {
  if (depth > DEEPEST) return '[too deep]'
  if (Array.isArray(value)) return value.map((item) => redact(item, depth + 1))
  if (typeof value !== 'object' || value === null) return value
  const copy: [string, unknown][] = []
  const { [NAMING]: variable } = value as Readonly<Record<string, unknown>>
  for (const [key, item] of Object.entries(value)) {
    if (isSensitive(key)) copy.push([key, REDACTED])
    else if (typeof variable === 'string' && typeof item === 'string' && VALUES.has(key))
      copy.push([key, isSensitive(variable) ? REDACTED : redactText(item)])
    else copy.push([key, redact(item, depth + 1)])
  }
  return Object.fromEntries(copy)
}
