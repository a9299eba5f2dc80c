import { codingsOf, decoded } from '../../../flow/content-coding.js'
import { Slices } from '../../../lib/slices.js'
import { utf8Text } from '../../../lib/utf8-text.js'
import { readObject, textMember } from '../json.js'
import {
  ACCEPTED,
  type Finding,
  isAmong,
  keyFromBase64,
  type MacEncoding,
  type MacForm,
  macKey,
  macOf,
  piecesOf,
  type Scheme,
  sameText,
  single,
  staleness,
  TOLERANCE,
  type WebhookRequest
} from '../scheme.js'

interface BodyMacOptions extends Partial<MacForm> {
  /** Field with the signature. */
  readonly header: string
  /** Prefix of the signature: `sha256=`. */
  readonly prefix?: string
  /** Separator between several signatures, each with its prefix. */
  readonly separator?: string
  /** Encoding of the secret. @default none */
  readonly key?: 'base64'
  /** Accepts only JSON objects: the sender's challenge signs other texts with the same key. */
  readonly objects?: boolean
}

/** HMAC of the body in one field. Defaults: SHA-256, hexadecimal. */
export function bodyMac(options: BodyMacOptions): Scheme {
  const { header, prefix = '', separator, key: written, objects = false } = options
  const form: MacForm = { algorithm: options.algorithm ?? 'sha256', encoding: options.encoding ?? 'hex' }
  return (secret) => {
    const bytes = written === 'base64' ? keyFromBase64(secret) : secret
    if (bytes === undefined) return 'must be base64'
    const key = macKey(bytes)
    return async ({ headers, body }) => {
      const found = single(headers, header)
      if (typeof found === 'string') return found
      if (objects && body[0] !== OPENING_BRACE) return 'BODY_INVALID'
      const expected = prefix + (await macOf(form, key, body))
      const same =
        separator === undefined ? sameText(expected, found.value) : isAmong(expected, partsOf(found.value, separator))
      return same ? ACCEPTED : 'SIGNATURE_INVALID'
    }
  }
}

const OPENING_BRACE = 0x7b

/** Base64 HMAC-SHA256 of the body in fields `<name>-1`, `<name>-2` and so on, one for each active key. */
export function numberedBodyMac(name: string): Scheme {
  const form: MacForm = { algorithm: 'sha256', encoding: 'base64' }
  return (secret) => {
    const key = macKey(secret)
    return async ({ headers, body }) => {
      const given = numbered(headers, `${name}-`)
      if (given.length === 0) return 'SIGNATURE_MISSING'
      return isAmong(await macOf(form, key, body), given) ? ACCEPTED : 'SIGNATURE_INVALID'
    }
  }
}

function numbered(headers: WebhookRequest['headers'], start: string): readonly string[] {
  const values: string[] = []
  for (const [name, of] of headers.byName) if (name.startsWith(start)) values.push(...of)
  return values
}

/** Splits a list and trims its parts. */
export function partsOf(list: string, separator: string): readonly string[] {
  return list.split(separator).map((part) => part.trim())
}

interface DatedBodyMacOptions {
  readonly header: string
  /** Member of the JSON body with the sending time. */
  readonly member: string
  /** Milliseconds. */
  readonly tolerance: number
}

const FORM = { algorithm: 'sha256', encoding: 'hex' } as const

/** Hex HMAC-SHA256 of a JSON body that contains its sending time. */
export function datedBodyMac({ header, member, tolerance }: DatedBodyMacOptions): Scheme {
  return (secret) => {
    const key = macKey(secret)
    return async ({ headers, body, now }) => {
      const found = single(headers, header)
      if (typeof found === 'string') return found
      // The body is parsed only with a valid signature.
      if (!sameText(await macOf(FORM, key, body), found.value)) return 'SIGNATURE_INVALID'
      const object = await readObject(body, [member])
      if (object === undefined) return 'BODY_INVALID'
      return staleness(textMember(object, member), now, tolerance) ?? ACCEPTED
    }
  }
}

interface PairedMacOptions {
  readonly header: string
  /** Name of the timestamp pair. */
  readonly timestamp?: string
  /** Name of the signature pairs. */
  readonly signature?: string
}

/** `t=<timestamp>,v1=<signature>` in one field: hex HMAC-SHA256 of `<timestamp>.<body>`. Other pairs are ignored. */
export function pairedMac({ header, timestamp = 't', signature = 'v1' }: PairedMacOptions): Scheme {
  return (secret) => {
    const key = macKey(secret)
    return async ({ headers, body, now }) => {
      const found = single(headers, header)
      if (typeof found === 'string') return found
      const times = pairs(found.value, timestamp)
      const given = pairs(found.value, signature)
      if (given.length === 0) return 'SIGNATURE_MISSING'
      const [time] = times
      if (time === undefined || times.length > 1) return 'TIMESTAMP_INVALID'
      const stale = staleness(time, now, TOLERANCE)
      if (stale !== undefined) return stale
      return isAmong(await macOf(FORM, key, `${time}.`, body), given) ? ACCEPTED : 'SIGNATURE_INVALID'
    }
  }
}

/** Returns the values of all pairs of this name in `name=value,name=value`. */
function pairs(list: string, name: string): readonly string[] {
  const start = `${name}=`
  return partsOf(list, ',').flatMap((pair) => (pair.startsWith(start) ? [pair.slice(start.length)] : []))
}

/** Maximum size of decoded content (bytes), because a few coded bytes can expand to much more. */
const MOST_CONTENT = 4 * 1024 * 1024

interface TimedMacOptions {
  /** Fields with signatures, one for each active key; any valid one suffices. */
  readonly headers: readonly [string, ...string[]]
  readonly timestamp: string
  readonly encoding?: MacEncoding
  /** Prefix of the signature: `v0=`. */
  readonly prefix?: string
  /** Separator between several signatures. */
  readonly separator?: string
  /** Signed text before the body. */
  readonly before?: (timestamp: string) => string
  /** Signed text after the body. */
  readonly after?: (timestamp: string) => string
  /** Milliseconds. */
  readonly tolerance?: number
  /** True: the signature covers the content without its content coding. */
  readonly content?: boolean
}

/** HMAC-SHA256 of the body and a timestamp in its own field. */
export function timedMac(options: TimedMacOptions): Scheme {
  const { headers: names, timestamp, encoding = 'hex', prefix = '', separator, tolerance = TOLERANCE } = options
  const { before = () => '', after = () => '', content = false } = options
  const form = { algorithm: 'sha256', encoding } as const
  return (secret) => {
    const key = macKey(secret)
    return async ({ headers, body, now }) => {
      const given = signatures(headers, names)
      if (typeof given === 'string') return given
      const time = single(headers, timestamp)
      if (typeof time === 'string') return time === 'SIGNATURE_MISSING' ? 'TIMESTAMP_INVALID' : time
      const stale = staleness(time.value, now, tolerance)
      if (stale !== undefined) return stale
      const candidates = separator === undefined ? given : given.flatMap((list) => partsOf(list, separator))
      const look = async (bytes: Uint8Array): Promise<Finding> => {
        const expected = prefix + (await macOf(form, key, before(time.value), bytes, after(time.value)))
        return isAmong(expected, candidates) ? ACCEPTED : 'SIGNATURE_INVALID'
      }
      const codings = content ? codingsOf(headers) : []
      if (codings.length === 0) return look(body)
      const bytes = await decoded(body, codings, MOST_CONTENT)
      return typeof bytes === 'string' ? 'BODY_INVALID' : look(bytes)
    }
  }
}

function signatures(
  headers: WebhookRequest['headers'],
  names: readonly string[]
): readonly string[] | 'SIGNATURE_MISSING' | 'SIGNATURE_REPEATED' {
  const given: string[] = []
  for (const name of names) {
    const found = single(headers, name)
    if (found === 'SIGNATURE_REPEATED') return found
    if (found !== 'SIGNATURE_MISSING') given.push(found.value)
  }
  return given.length === 0 ? 'SIGNATURE_MISSING' : given
}

const URL_BODY_FORM = { algorithm: 'sha256', encoding: 'base64' } as const

/** Base64 HMAC-SHA256 of the URL followed by the body. */
export function urlBodyMac(header: string): Scheme {
  return (secret) => {
    const key = macKey(secret)
    return async (request) => {
      const found = single(request.headers, header)
      if (typeof found === 'string') return found
      let same = false
      for (const url of request.urls())
        if (sameText(await macOf(URL_BODY_FORM, key, url, request.body), found.value)) same = true
      return same ? ACCEPTED : 'SIGNATURE_INVALID'
    }
  }
}

const HYGRAPH_FORM = { algorithm: 'sha256', encoding: 'base64' } as const
const DIGITS = /^\d{1,15}$/

/**
 * Hygraph, formerly GraphCMS: `sign=<signature>, env=<environment>, t=<timestamp>`; base64 HMAC-SHA256 of a JSON text with the body as a
 * string, the environment and the timestamp.
 */
export const hygraph: Scheme = (secret) => {
  const key = macKey(secret)
  return async ({ headers, body, now }) => {
    const found = single(headers, 'gcms-signature')
    if (typeof found === 'string') return found
    const [signs, environments, times] = ['sign', 'env', 't'].map((name) => pairs(found.value, name))
    const [sign, environment, time] = [signs?.[0], environments?.[0], times?.[0]]
    if (sign === undefined || environment === undefined || time === undefined) return 'SIGNATURE_MISSING'
    if (signs?.length !== 1 || environments?.length !== 1 || times?.length !== 1) return 'SIGNATURE_REPEATED'
    if (!DIGITS.test(time) || String(Number(time)) !== time) return 'TIMESTAMP_INVALID'
    const stale = staleness(time, now, TOLERANCE)
    if (stale !== undefined) return stale
    // Different invalid UTF-8 would be signed as the same replacement characters.
    const text = await new Slices().run(utf8Text(body))
    if (text === undefined) return 'BODY_INVALID'
    const rest = JSON.stringify({ EnvironmentName: environment, TimeStamp: Number(time) })
    const expected = await macOf(HYGRAPH_FORM, key, '{"Body":"', escaped(text), `",${rest.slice(1)}`)
    return sameText(expected, sign) ? ACCEPTED : 'SIGNATURE_INVALID'
  }
}

/** Characters escaped in one step; an escape has six at most. */
const ESCAPED_STRETCH = 8_192

/** Yields a text as JSON without quotes, in pieces. */
function* escaped(text: string): Iterable<string> {
  for (const piece of piecesOf(text, ESCAPED_STRETCH)) yield JSON.stringify(piece).slice(1, -1)
}
