import { type Authority, parseAuthority, withoutDefaultPort } from '../lib/host.js'
import { appendTo } from '../lib/lists.js'

/**
 * Normal form of paths that servers read in different ways. `lenient`: RFC 3986 6.2.2 only. `strict`: merges repeated slashes and rejects
 * ambiguous paths (`PathProblem`). `exact`: decisions use the lenient form, and the upstream gets path and query byte for byte.
 */
export type PathForm = 'strict' | 'lenient' | 'exact'

/**
 * Returns whether an edge accepts only strict paths. `form`: its setting, if any. `lenient`: whether a listener keeps paths that the strict
 * form rejects.
 */
export function takesStrictPaths(form: unknown, lenient: boolean): boolean {
  return form === 'strict' || (form !== 'lenient' && form !== 'exact' && !lenient)
}

/** Reason why a text has no normal form as a path. All but the first apply to the strict form only. */
export type PathProblem =
  /** No leading `/`, a query or fragment, an incomplete escape, or a character without an encoding. */
  | 'not-a-path'
  /** `%2F`, or an overlong encoding, invalid in UTF-8, which some decoders read as a slash or a dot (RFC 3629 3). */
  | 'encoded-slash'
  /** `%5C` or a raw backslash. */
  | 'backslash'
  /** `%00` to `%1F` and `%7F`. */
  | 'encoded-control'
  /** A dot segment with parameters, or an empty one before others: `/x/..;/admin`, `/;x=1/admin`. */
  | 'dot-parameters'

/**
 * The normal form of a request target, for policies and the upstream. Path (RFC 3986 6.2.2): escapes of unreserved characters are decoded,
 * hex digits of the others are upper-case, so `%2F`, `%5C` and `%00` stay encoded; characters that no URI may contain are encoded; then dot
 * segments are resolved. Query: the same without dot segments; a `%` without an escape is kept. This is the lenient form, in which a target
 * is created; `in` returns the others.
 */
export class RequestTarget {
  readonly scheme: 'http' | 'https'
  /** Host with an optional port, normalized for comparison: see `host` and `port`. */
  readonly authority: string
  /** In lower case, without a trailing dot and without brackets. */
  readonly host: string
  /** Set only if written and not the default of the scheme. */
  readonly port: number | undefined
  /** Starts with `/`; `*` for the asterisk form. */
  readonly path: string
  /** Without the `?`; undefined if absent. */
  readonly query: string | undefined
  /** The path before dot segments were resolved; '' if its lenient form is its strict one. */
  readonly #escaped: string
  /** The authority as written. */
  readonly #written: Authority
  /** Path and query as received. */
  readonly #came: string
  readonly #exact: boolean
  #parameters: Map<string, string[]> | undefined

  /** Seven parameters, because an object would be an allocation per request. */
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
   * Parses the target of a request line (RFC 9112 3.2) with a Host value. Returns undefined for invalid targets: a fragment, an incomplete
   * escape in the path, a byte outside visible ASCII, an absolute form whose authority is not Host, or `*` with another method than
   * OPTIONS.
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

  /** Parses an absolute URL to its normal form; returns undefined if not an http(s) URL. Rejects userinfo. */
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

  /** Returns the target with its path in this form and with this scheme, or the problem of its path. */
  in(form: PathForm, scheme = this.scheme): RequestTarget | PathProblem {
    const escaped = this.#escaped
    const isFormed = escaped === '' || form !== 'strict'
    const exact = form === 'exact'
    if (isFormed && scheme === this.scheme && exact === this.#exact) return this
    const path = isFormed ? this.path : strictPath(escaped)
    if (typeof path !== 'string') return path.problem
    return new RequestTarget(scheme, this.#written, path, this.query, isFormed ? escaped : '', this.#came, exact)
  }

  /** Path and query as in a request line. */
  get uri(): string {
    return this.query === undefined ? this.path : `${this.path}?${this.query}`
  }

  /** Request target for the upstream: `uri`, or in the exact form path and query as received. */
  get sent(): string {
    return this.#exact ? this.#came : this.uri
  }

  get url(): string {
    return `${this.scheme}://${this.authority}${this.path === '*' ? '' : this.uri}`
  }

  /** Parameters decoded as application/x-www-form-urlencoded, in order of first use; names keep their case. */
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
/** Matches paths in strict normal form: no escape, no query, no empty segment, none that begins with a dot or with parameters. */
const PLAIN = /^(?:\/(?![.;])[A-Za-z0-9\-._~!$&'()*+,;=:@]+)*\/?$/
/** Scheme, authority and rest of an absolute URL. */
const HTTP_URL = /^(https?):\/\/([^/?#]*)(.*)$/is
/** The two hexadecimal digits of an escape. */
const ESCAPE = /^[0-9A-Fa-f]{2}$/
/** Unreserved characters (RFC 3986 2.3). */
const UNRESERVED = /[A-Za-z0-9\-._~]/
/** Visible ASCII that no URI may contain unescaped (RFC 3986 2). `#` is rejected instead. */
const FORBIDDEN = new Set('"<>\\^`{|}[]')

function splitUrl(url: string): { scheme: 'http' | 'https'; authority: string; uri: string } | undefined {
  const match = HTTP_URL.exec(url)
  if (match === null) return undefined
  const rest = match[3] as string
  const uri = rest.startsWith('/') ? rest : `/${rest}`
  return { scheme: (match[1] as string).toLowerCase() as 'http' | 'https', authority: match[2] as string, uri }
}

/** Normalizes a path of a configuration. Characters outside visible ASCII are encoded first (UTF-8), as a client would. */
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

/** Removes the parameters of path segments (RFC 3986 3.3): `/a;x=1/;y/b` becomes `/a/b`. An encoded `;` counts, too. */
export function withoutParameters(path: string): string {
  return hasParameters(path) ? path.replace(PARAMETERS, '').replace(SLASHES, '/') : path
}

/** Returns whether the path has `;` or `%3B`, after which some servers read segment parameters (RFC 3986 3.3). */
export function hasParameters(path: string): boolean {
  return path.includes(';') || path.includes('%3B')
}

const NOT_A_PATH = { problem: 'not-a-path' } as const
const LONE_SURROGATE = /\p{Surrogate}/u
const NOT_VISIBLE = /[^\x21-\x7e]+/g
const SLASHES = /\/{2,}/g
const PARAMETERS = /(?:;|%3B)[^/]*/g
/** Patterns that the strict form rejects, in escapes with upper-case digits. */
const REFUSED: readonly (readonly [PathProblem, RegExp])[] = [
  ['encoded-slash', /%2F|%C[01]%[89AB]|%E0%[89]|%F0%8/],
  ['backslash', /%5C/],
  ['encoded-control', /%[01].|%7F/],
  ['dot-parameters', /\/(?:\.{1,2}(?:;|%3B)|(?:;|%3B)[^/]*\/)/]
]

/** Returns the strict form of a path with normalized escapes: slashes are merged before dot segments are resolved. */
function strictPath(escaped: string): string | { readonly problem: PathProblem } {
  for (const [problem, pattern] of REFUSED) if (pattern.test(escaped)) return { problem }
  return withoutDotSegments(escaped.replace(SLASHES, '/'))
}

/** Normalizes escapes. With `strict`, an incomplete escape makes the text invalid; otherwise its `%` is kept. */
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

/** Implements RFC 3986 5.2.4 over whole segments; `..` at the root stays at the root. */
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

/** Returns a request target without its query. */
export function withoutQuery(target: string): string {
  const mark = target.indexOf('?')
  return mark === -1 ? target : target.slice(0, mark)
}
