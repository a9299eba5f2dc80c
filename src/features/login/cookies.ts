import type { Jar } from '../../flow/reserved-paths.js'

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

  /** Names of the attempts that the browser has under way, newest first. */
  attemptsIn(jar: Jar): string[] {
    return [...jar.keys()]
      .filter((name) => name.startsWith(this.#attempt))
      .sort()
      .reverse()
  }

  /** Value of a Set-Cookie field. Without `maxAge` (seconds) it lasts as long as the browser runs. */
  set(name: string, value: string, maxAge?: number): string {
    return `${name}=${value}${this.#attributes}${maxAge === undefined ? '' : `; Max-Age=${maxAge}`}`
  }

  drop(name: string): string {
    return this.set(name, '', 0)
  }
}
