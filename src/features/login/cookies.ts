import type { HeaderFields, HeaderList } from '../../flow/headers.js'

/** Cookies of logins that a request carries, by name. */
export type Jar = ReadonlyMap<string, string>

/**
 * Names of our cookies: `<prefix>session.<tag>`, its further pieces `.1`, `.2`, …, `<prefix>activity.<tag>` and
 * `<prefix>nonce.<tag>.<id of the attempt>`, where the tag of a realm begins with `sl`.
 */
const OURS = /^(?:__Host-|__Secure-)?[A-Za-z0-9.]*(?:session|activity|nonce)\.sl[0-9a-f]{12}(?:\.[0-9a-z]{1,16})?$/
const MARK = '.sl'
const EMPTY: Jar = new Map()

/** The login cookies of a request as it came, of whatever realm; of several of one name the first one. */
export function loginCookies(list: HeaderList): Jar {
  let jar: Map<string, string> | undefined
  for (let i = 0; i < list.length; i += 2) {
    const name = list[i] as string
    if (name.length !== 6 || name.toLowerCase() !== 'cookie') continue
    const line = list[i + 1] as string
    if (!line.includes(MARK)) continue
    for (const pair of line.split(';')) {
      const cookie = ours(pair)
      if (cookie === undefined) continue
      jar ??= new Map()
      if (!jar.has(cookie[0])) jar.set(cookie[0], cookie[1])
    }
  }
  return jar ?? EMPTY
}

/** Takes the login cookies of every realm out of a request, so that no upstream sees them. */
export function dropLoginCookies(headers: HeaderFields): void {
  if (!hasCookie(headers.list)) return
  const lines = headers.values('cookie')
  if (!lines.some((line) => line.includes(MARK))) return
  let kept = ''
  for (const line of lines) {
    for (const pair of line.split(';')) {
      const trimmed = pair.trim()
      if (trimmed !== '' && ours(trimmed) === undefined) kept += kept === '' ? trimmed : `; ${trimmed}`
    }
  }
  if (kept === '') headers.delete('cookie')
  else headers.set('Cookie', kept)
}

/** Without the lower-case view: most requests have none, and each pays for the question. */
function hasCookie(list: HeaderList): boolean {
  for (let i = 0; i < list.length; i += 2) {
    const name = list[i] as string
    if (name.length === 6 && name.toLowerCase() === 'cookie') return true
  }
  return false
}

function ours(pair: string): readonly [string, string] | undefined {
  const equals = pair.indexOf('=')
  if (equals === -1) return undefined
  const name = pair.slice(0, equals).trim()
  if (!name.includes(MARK)) return undefined
  return OURS.test(name) ? [name, pair.slice(equals + 1).trim()] : undefined
}

/** How cookies of one gate are named and set on one kind of connection. */
export class CookieStyle {
  readonly session: string
  readonly activity: string
  readonly #attempt: string
  readonly #attributes: string

  /**
   * `secure`: the client came over TLS. Then the names begin with `__Host-`, or with `__Secure-` where a domain is asked
   * for (RFC 6265bis 4.1.3), and no plain connection can set or read the cookies.
   */
  constructor(prefix: string, tag: string, secure: boolean, domain: string | undefined) {
    const begin = `${secure ? (domain === undefined ? '__Host-' : '__Secure-') : ''}${prefix}`
    this.session = `${begin}session.${tag}`
    this.activity = `${begin}activity.${tag}`
    this.#attempt = `${begin}nonce.${tag}.`
    this.#attributes = `${domain === undefined ? '' : `; Domain=${domain}`}; Path=/; HttpOnly; SameSite=Lax${secure ? '; Secure' : ''}`
  }

  attempt(id: string): string {
    return this.#attempt + id
  }

  /** Names of the attempts that the browser has under way. */
  attemptsIn(jar: Jar): string[] {
    return [...jar.keys()].filter((name) => name.startsWith(this.#attempt))
  }

  /** Value of a Set-Cookie field. Without `maxAge` (seconds) it lasts as long as the browser runs. */
  set(name: string, value: string, maxAge?: number): string {
    return `${name}=${value}${this.#attributes}${maxAge === undefined ? '' : `; Max-Age=${maxAge}`}`
  }

  drop(name: string): string {
    return this.set(name, '', 0)
  }
}
