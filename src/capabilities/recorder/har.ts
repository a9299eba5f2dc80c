import { isObject } from '../../lib/json.js'
import type { Slices } from '../../lib/slices.js'
import type { ShownFirewallResult } from '../../telemetry/firewall.js'
import { redactUrl } from '../../telemetry/redaction.js'
import { redactedFields } from '../explain/explanation-of.js'
import type { Archive, ExchangeView, ShownBody } from './answers.js'
import { fieldOf, type RecordedExchange, shownExchange, urlOf } from './recorded-exchange.js'

/**
 * Converts exchanges to an HTTP Archive (HAR 1.2), redacted. `version`: version of the program. Data without a place in HAR is under `_sluice`.
 */
export function harOf(exchanges: readonly RecordedExchange[], baseUrl: string, version: string): Archive {
  return {
    log: {
      version: '1.2',
      creator: { name: 'Sluice', version },
      entries: exchanges.map((recorded) => entryOf(recorded, shownExchange(recorded, baseUrl)))
    }
  }
}

function entryOf(recorded: RecordedExchange, shown: ExchangeView): object {
  const { at, request, response, durationMs, upstreamMs, bytesOut, connection } = recorded
  const { request: asked, response: answered, ...rest } = shown
  const url = redactUrl(urlOf(recorded))
  const wait = upstreamMs ?? durationMs
  return {
    startedDateTime: new Date(at).toISOString(),
    time: durationMs,
    request: {
      method: request.method,
      url,
      httpVersion: versionOf(request.version),
      cookies: [],
      headers: pairsOf(redactedFields(request.headers)),
      queryString: URL.canParse(url) ? [...new URL(url).searchParams].map(([name, value]) => ({ name, value })) : [],
      headersSize: -1,
      bodySize: recorded.bytesIn,
      ...(asked.body === null ? {} : { postData: postDataOf(asked.body, fieldOf(request.headers, 'content-type')) })
    },
    response: {
      status: response?.status ?? 0,
      statusText: '',
      httpVersion: versionOf(request.version),
      cookies: [],
      headers: pairsOf(redactedFields(response?.headers ?? [])),
      content: contentOf(answered?.body ?? null, fieldOf(response?.headers ?? [], 'content-type'), bytesOut),
      redirectURL: redactUrl(fieldOf(response?.headers ?? [], 'location')),
      headersSize: -1,
      bodySize: bytesOut
    },
    cache: {},
    timings: { send: 0, wait, receive: Math.max(0, durationMs - wait) },
    connection: String(connection.id),
    _sluice: rest
  }
}

/** Returns an exchange as `sluice log` and files of the recorder have it as an entry of an archive; undefined for other values. */
export function archivedView(view: unknown): object | undefined {
  if (!isObject(view) || !isObject(view.request) || !Array.isArray(view.request.headers)) return undefined
  const { request, response, at, method, url, http_version: version, ...rest } = view as unknown as ExchangeView
  const { body } = request
  return {
    startedDateTime: at,
    request: {
      method,
      url,
      httpVersion: versionOf(version),
      headers: pairsOf(request.headers),
      ...(body?.whole === true ? { postData: postDataOf(body, fieldOf(request.headers, 'content-type')) } : {})
    },
    response: { status: response?.status ?? 0, headers: pairsOf(response?.headers ?? []) },
    _sluice: rest
  }
}

function versionOf(version: string): string {
  return `HTTP/${version === '2' ? '2.0' : version}`
}

function pairsOf(fields: readonly string[]): object[] {
  const pairs: object[] = []
  for (let i = 0; i < fields.length; i += 2) pairs.push({ name: fields[i], value: fields[i + 1] })
  return pairs
}

function postDataOf({ text, base64 }: NonNullable<ShownBody>, mimeType: string): object {
  return text === undefined ? { mimeType, text: base64 ?? '', _encoding: 'base64' } : { mimeType, text }
}

function contentOf(body: NonNullable<ShownBody> | null, mimeType: string, size: number): object {
  if (body === null) return { size, mimeType }
  const { text, base64 = '', bytes } = body
  return text === undefined
    ? { size: bytes, mimeType, text: base64, encoding: 'base64' }
    : { size: bytes, mimeType, text }
}

/** A request of an archive, with its result. */
export interface ArchivedExchange {
  readonly method: string
  readonly url: URL
  /** Names and values by turns. */
  readonly headers: readonly string[]
  readonly body: Uint8Array | undefined
  readonly version: '1.0' | '1.1' | '2'
  /** Wall time, milliseconds. */
  readonly at: number
  /** Address of the client; undefined if the archive has none. */
  readonly clientAddress: string | undefined
  readonly status: number
  readonly responseHeaders: readonly string[]
  /** Decision as in `decisionText`; undefined if Sluice did not record it. */
  readonly decided: string | undefined
  /** Id in the recorder it comes from. */
  readonly id: string | undefined
  /** Results of the firewall that Sluice recorded. */
  readonly waf: readonly ShownFirewallResult[]
  readonly isSignedIn: boolean
}

/** Fields that HTTP/2 has in the place of a request line, and those that its transport makes. */
const NO_FIELD = /^(?::|content-length$|transfer-encoding$|connection$)/i

type ReadArchive =
  | { readonly ok: true; readonly exchanges: ArchivedExchange[] }
  | { readonly ok: false; readonly message: string }

/**
 * Returns the exchanges of an HTTP Archive in the order of their start, or the position and kind of the error. Archives of
 * browsers and other proxies are accepted.
 */
export function readHar(value: unknown): ReadArchive {
  const log = isObject(value) ? value.log : undefined
  const entries = isObject(log) ? log.entries : undefined
  if (!Array.isArray(entries)) return { ok: false, message: 'is no HTTP Archive: log.entries is missing' }
  const exchanges: ArchivedExchange[] = []
  for (const [i, entry] of entries.entries()) {
    const read = readEntry(entry)
    if (typeof read === 'string') return { ok: false, message: `log.entries[${i}]: ${read}` }
    exchanges.push(read)
  }
  return { ok: true, exchanges: exchanges.sort((a, b) => a.at - b.at) }
}

/** Reads the entries of an archive like `readHar`, from text with one entry per line. */
export async function readHarLines(text: string, slices: Slices): Promise<ReadArchive> {
  const exchanges: ArchivedExchange[] = []
  let line = 0
  for (let at = 0; at < text.length; ) {
    line++
    const end = text.indexOf('\n', at)
    const entry = text.slice(at, end === -1 ? text.length : end)
    at = end === -1 ? text.length : end + 1
    if (entry.trim() === '') continue
    const read = readEntryText(entry)
    if (typeof read === 'string') return { ok: false, message: `line ${line}: ${read}` }
    exchanges.push(read)
    if (slices.due) await slices.rest()
  }
  return { ok: true, exchanges: exchanges.sort((a, b) => a.at - b.at) }
}

function readEntryText(entry: string): ArchivedExchange | string {
  try {
    return readEntry(JSON.parse(entry))
  } catch {
    return 'is no JSON'
  }
}

function readEntry(entry: unknown): ArchivedExchange | string {
  if (!isObject(entry) || !isObject(entry.request)) return 'has no request'
  const { request, response, startedDateTime, _sluice: own } = entry
  const { method, url, headers, postData, httpVersion } = request
  if (typeof method !== 'string' || method === '') return 'has no method'
  if (typeof url !== 'string' || !URL.canParse(url) || !/^https?:/i.test(url)) return 'has no http or https URL'
  const at = Date.parse(String(startedDateTime))
  if (Number.isNaN(at)) return 'has no startedDateTime'
  const { status = 0, headers: answered } = isObject(response) ? response : {}
  const { client_ip, decided, id, waf, signed_in } = isObject(own) ? own : {}
  return {
    method,
    url: new URL(url),
    headers: fieldsOf(headers),
    body: bodyOf(postData),
    version: versionFrom(httpVersion),
    at,
    clientAddress: typeof client_ip === 'string' ? client_ip : undefined,
    status: typeof status === 'number' ? status : 0,
    responseHeaders: fieldsOf(answered),
    decided: typeof decided === 'string' ? decided : undefined,
    id: typeof id === 'string' ? id : undefined,
    waf: Array.isArray(waf) ? waf.filter(isFirewallResult) : [],
    isSignedIn: signed_in === true
  }
}

function isFirewallResult(value: unknown): value is ShownFirewallResult {
  if (!isObject(value) || !Array.isArray(value.rules)) return false
  const { action, owner, path, decision, score, threshold, rules } = value
  const texts = [action, owner, path, decision]
  return (
    texts.every((one) => typeof one === 'string') &&
    [score, threshold].every((one) => typeof one === 'number') &&
    rules.every(
      (rule) =>
        isObject(rule) &&
        Number.isSafeInteger(rule.id) &&
        typeof rule.score === 'number' &&
        ['message', 'variable', 'value'].every((name) => typeof rule[name] === 'string')
    )
  )
}

function versionFrom(version: unknown): ArchivedExchange['version'] {
  const text = String(version).toLowerCase()
  return /^(?:http\/)?(?:2|3|h2|h3)/.test(text) ? '2' : text === 'http/1.0' ? '1.0' : '1.1'
}

function fieldsOf(headers: unknown): string[] {
  const fields: string[] = []
  for (const one of Array.isArray(headers) ? headers : []) {
    if (!isObject(one) || typeof one.name !== 'string' || typeof one.value !== 'string') continue
    if (!NO_FIELD.test(one.name)) fields.push(one.name, one.value)
  }
  return fields
}

function bodyOf(postData: unknown): Uint8Array | undefined {
  if (!isObject(postData) || typeof postData.text !== 'string') return undefined
  return Buffer.from(postData.text, postData._encoding === 'base64' ? 'base64' : 'utf8')
}
