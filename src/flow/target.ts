import { type Authority, parseAuthority, withoutDefaultPort } from '../lib/host.js'
import { appendTo } from '../lib/lists.js'

/**
 * What the normal form of a path does with what servers read in different ways. `lenient`: RFC 3986 6.2.2 and no more.
 * `strict`: repeated slashes are merged, and what some servers take for another path is refused (`PathProblem`).
 * `exact`: as `lenient` for whatever decides, while the upstream gets path and query byte for byte.
 */
export type PathForm = 'strict' | 'lenient' | 'exact'

/**
 * Does an edge take paths in the strict form alone? `form`: what it says, if anything. `lenient`: does a listener keep what the strict
 * form refuses?
 */
export function takesStrictPaths(form: unknown, lenient: boolean): boolean {
  return form === 'strict' || (form !== 'lenient' && form !== 'exact' && !lenient)
}

/** Why a text has no normal form as a path. All but the first are known to the strict form alone. */
export type PathProblem =
  /** No `/` at its beginning, a query or fragment, an incomplete escape, a character without an encoding. */
  | 'not-a-path'
  /** `%2F`, or one of the overlong encodings that no UTF-8 has, which some decoders take for a slash or a dot (RFC 3629 3). */
  | 'encoded-slash'
  /** `%5C` or a raw one. */
  | 'backslash'
  /** `%00` to `%1F` and `%7F`. */
  | 'encoded-control'
  /** A dot segment with parameters, or an empty one before others: `/x/..;/admin`, `/;x=1/admin`. */
  | 'dot-parameters'

/**
 * The one normal form of a request target: policies see it and the upstream gets it.
 *
 * Path (RFC 3986 6.2.2): escapes of unreserved characters are decoded, the hex digits of all others are upper-case, so
 * `%2F`, `%5C` and `%00` stay encoded; characters that no URI may hold are encoded; then dot segments are resolved.
 * Query: the same, without dot segments; a `%` that begins no escape stays as it came.
 *
 * That is the lenient form, in which a target is made; `in` gives the others.
 */
export class RequestTarget {
  readonly scheme: 'http' | 'https'
  /** Host with an optional port, in the one form in which hosts are compared: see `host` and `port`. */
  readonly authority: string
  /** Lower-case, without the dot of the root and without brackets. */
  readonly host: string
  /** Only when written, and not the default of the scheme. */
  readonly port: number | undefined
  /** Begins with `/`; `*` for the asterisk form. */
  readonly path: string
  /** Without the `?`; undefined when there is none. */
  readonly query: string | undefined
  /** The path before dot segments were resolved; '' when its lenient form is its strict one. */
  readonly #escaped: string
  /** The authority as it was written. */
  readonly #written: Authority
  /** Path and query as they came. */
  readonly #came: string
  readonly #exact: boolean
  #parameters: Map<string, string[]> | undefined

  /** Its seven parameters are no object, which would be an allocation for each request. */
  private constructor(
    scheme: 'http' | 'https',
    written: Authority,
    path: string,
    query: string | undefined,
    escaped: string,
    came: string,
    exact = false
  ) {
    const { text, host, port } = withoutDefaultPort(written, scheme)
    this.scheme = scheme
    this.authority = text
    this.host = host
    this.port = port
    this.path = path
    this.query = query
    this.#escaped = escaped
    this.#written = written
    this.#came = came
    this.#exact = exact
  }

  /**
   * The target of a request line (RFC 9112 3.2) under a Host value, or undefined when it is not one: a fragment, an
   * incomplete escape in the path, a byte outside visible ASCII, an absolute form whose authority is not Host,
   * or `*` with another method than OPTIONS.
   */
  static fromRequestLine(
    method: string,
    target: string,
    authority: string,
    scheme: 'http' | 'https'
  ): RequestTarget | undefined {
    const parts = parseAuthority(authority)
    if (parts === undefined) return undefined
    if (target.charCodeAt(0) === SLASH) return RequestTarget.#fromUri(scheme, parts, target)
    if (target === '*')
      return method === 'OPTIONS' ? new RequestTarget(scheme, parts, '*', undefined, '', '*') : undefined
    const split = splitUrl(target)
    if (split === undefined || split.authority.toLowerCase() !== authority.toLowerCase()) return undefined
    // The absolute form of `*` has no path (RFC 9112 3.2.4).
    if (method === 'OPTIONS' && target.length === split.authority.length + target.indexOf('//') + 2)
      return new RequestTarget(scheme, parts, '*', undefined, '', '*')
    return RequestTarget.#fromUri(scheme, parts, split.uri)
  }

  /** The target that an absolute URL names, in normal form; undefined when it is no http(s) URL. Userinfo is refused. */
  static fromUrl(url: string): RequestTarget | undefined {
    const split = splitUrl(url)
    const parts = split === undefined ? undefined : parseAuthority(split.authority)
    if (split === undefined || parts === undefined) return undefined
    return RequestTarget.#fromUri(split.scheme, parts, split.uri)
  }

  static #fromUri(scheme: 'http' | 'https', parts: Authority, uri: string): RequestTarget | undefined {
    if (PLAIN.test(uri)) return new RequestTarget(scheme, parts, uri, undefined, '', uri)
    const mark = uri.indexOf('?')
    const came = mark === -1 ? uri : uri.slice(0, mark)
    const escaped = PLAIN.test(came) ? '' : normalEscapes(came, true)
    if (escaped === undefined) return undefined
    const query = mark === -1 ? undefined : normalEscapes(uri.slice(mark + 1), false)
    if (mark !== -1 && query === undefined) return undefined
    const path = escaped === '' ? came : withoutDotSegments(escaped)
    return new RequestTarget(scheme, parts, path, query, escaped, uri)
  }

  /** The target with its path in this form, and with this scheme, or why it has none. */
  in(form: PathForm, scheme = this.scheme): RequestTarget | PathProblem {
    const escaped = this.#escaped
    const isFormed = escaped === '' || form !== 'strict'
    const exact = form === 'exact'
    if (isFormed && scheme === this.scheme && exact === this.#exact) return this
    const path = isFormed ? this.path : strictPath(escaped)
    if (typeof path !== 'string') return path.problem
    return new RequestTarget(scheme, this.#written, path, this.query, isFormed ? escaped : '', this.#came, exact)
  }

  /** Path and query, as it stands in a request line. */
  get uri(): string {
    return this.query === undefined ? this.path : `${this.path}?${this.query}`
  }

  /** What stands in the request line to the upstream: `uri`, or in the exact form path and query as they came. */
  get sent(): string {
    return this.#exact ? this.#came : this.uri
  }

  get url(): string {
    return `${this.scheme}://${this.authority}${this.path === '*' ? '' : this.uri}`
  }

  /** Decoded as application/x-www-form-urlencoded; names keep their case and come in order of first use. */
  get parameters(): ReadonlyMap<string, readonly string[]> {
    if (this.#parameters === undefined) {
      const parameters = new Map<string, string[]>()
      if (this.query !== undefined) {
        for (const [name, value] of new URLSearchParams(this.query)) appendTo(parameters, name, value)
      }
      this.#parameters = parameters
    }
    return this.#parameters
  }
}

const SLASH = 0x2f
/** Paths that are in strict normal form as they stand: no escape, no query, no empty segment, none that begins with a dot or with parameters. */
const PLAIN = /^(?:\/(?![.;])[A-Za-z0-9\-._~!$&'()*+,;=:@]+)*\/?$/
const HTTP_URL = /^(https?):\/\/([^/?#]*)(.*)$/is
const ESCAPE = /^[0-9A-Fa-f]{2}$/
const UNRESERVED = /[A-Za-z0-9\-._~]/
/** Visible ASCII that no URI may hold unescaped (RFC 3986 2). `#` is refused instead. */
const FORBIDDEN = new Set('"<>\\^`{|}[]')

function splitUrl(url: string): { scheme: 'http' | 'https'; authority: string; uri: string } | undefined {
  const match = HTTP_URL.exec(url)
  if (match === null) return undefined
  const rest = match[3] as string
  const uri = rest.startsWith('/') ? rest : `/${rest}`
  return { scheme: (match[1] as string).toLowerCase() as 'http' | 'https', authority: match[2] as string, uri }
}

/**
 * The normal form of a path that stands in a configuration. Characters outside visible ASCII are encoded first (UTF-8), as
 * a client would.
 */
export function normalPath(
  text: string,
  form: PathForm
): { readonly path: string } | { readonly problem: PathProblem } {
  if (text.charCodeAt(0) !== SLASH || text.includes('?') || LONE_SURROGATE.test(text)) return NOT_A_PATH
  const escaped = normalEscapes(text.replace(NOT_VISIBLE, encodeURIComponent), true)
  if (escaped === undefined) return NOT_A_PATH
  const path = form === 'lenient' ? withoutDotSegments(escaped) : strictPath(escaped)
  return typeof path === 'string' ? { path } : path
}

/** A path without the parameters of its segments (RFC 3986 3.3): `/a;x=1/;y/b` is `/a/b`. An encoded `;` counts, too. */
export function withoutParameters(path: string): string {
  return hasParameters(path) ? path.replace(PARAMETERS, '').replace(SLASHES, '/') : path
}

/** Has the path `;` or `%3B`, behind which some servers read parameters of a segment (RFC 3986 3.3)? */
export function hasParameters(path: string): boolean {
  return path.includes(';') || path.includes('%3B')
}

const NOT_A_PATH = { problem: 'not-a-path' } as const
const LONE_SURROGATE = /\p{Surrogate}/u
const NOT_VISIBLE = /[^\x21-\x7e]+/g
const SLASHES = /\/{2,}/g
const PARAMETERS = /(?:;|%3B)[^/]*/g
/** What the strict form refuses, in escapes of upper-case digits. */
const REFUSED: readonly (readonly [PathProblem, RegExp])[] = [
  ['encoded-slash', /%2F|%C[01]%[89AB]|%E0%[89]|%F0%8/],
  ['backslash', /%5C/],
  ['encoded-control', /%[01].|%7F/],
  ['dot-parameters', /\/(?:\.{1,2}(?:;|%3B)|(?:;|%3B)[^/]*\/)/]
]

/** The strict form of a path whose escapes are normal: slashes are merged before dot segments are resolved. */
function strictPath(escaped: string): string | { readonly problem: PathProblem } {
  for (const [problem, pattern] of REFUSED) if (pattern.test(escaped)) return { problem }
  return withoutDotSegments(escaped.replace(SLASHES, '/'))
}

/** `strict`: an incomplete escape makes the text invalid; otherwise its `%` stays. */
function normalEscapes(text: string, strict: boolean): string | undefined {
  let normal = ''
  for (let i = 0; i < text.length; i++) {
    const character = text[i] as string
    const code = text.charCodeAt(i)
    if (code <= 0x20 || code >= 0x7f || character === '#') return undefined
    if (character === '%') {
      const digits = text.slice(i + 1, i + 3)
      if (ESCAPE.test(digits)) {
        const decoded = String.fromCharCode(Number.parseInt(digits, 16))
        normal += UNRESERVED.test(decoded) ? decoded : `%${digits.toUpperCase()}`
        i += 2
        continue
      }
      if (strict) return undefined
    }
    if (FORBIDDEN.has(character) && (strict || (character !== '[' && character !== ']'))) {
      normal += `%${code.toString(16).toUpperCase()}`
    } else normal += character
  }
  return normal
}

/** RFC 3986 5.2.4 over whole segments; `..` at the root stays at the root. */
function withoutDotSegments(path: string): string {
  if (!path.includes('/.')) return path
  const kept: string[] = []
  const segments = path.split('/')
  segments.shift()
  const last = segments.length - 1
  for (const [i, segment] of segments.entries()) {
    if (segment === '.' || segment === '..') {
      if (segment === '..') kept.pop()
      if (i === last) kept.push('')
    } else kept.push(segment)
  }
  return `/${kept.join('/')}`
}
