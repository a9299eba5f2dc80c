import type { Jar } from '../../flow/reserved-paths.js'

/** Names and attributes of one gate's cookies on one kind of connection. */
export class CookieStyle {
  readonly session: string
  readonly activity: string
  readonly #attempt: string
  readonly #attributes: string
  /** Attributes of attempts. */
  readonly #pending: string

  /**
   * `secure`: the client uses TLS. Then names begin with `__Host-`, or `__Secure-` with a domain (RFC 6265bis 4.1.3), and no plain
   * connection can set or read the cookies. `posted`: the provider's page posts its response, with which browsers send no `Lax` cookie;
   * attempts are then `None`, or without TLS unspecified, which browsers send for two minutes.
   */
  constructor(prefix: string, tag: string, secure: boolean, domain: string | undefined, posted = false) {
    const begin = `${secure ? (domain === undefined ? '__Host-' : '__Secure-') : ''}${prefix}`
    this.session = `${begin}session.${tag}`
    this.activity = `${begin}activity.${tag}`
    this.#attempt = `${begin}nonce.${tag}.`
    const place = `${domain === undefined ? '' : `; Domain=${domain}`}; Path=/; HttpOnly`
    this.#attributes = `${place}; SameSite=Lax${secure ? '; Secure' : ''}`
    this.#pending = posted ? `${place}${secure ? '; SameSite=None; Secure' : ''}` : this.#attributes
  }

  attempt(id: string): string {
    return this.#attempt + id
  }

  /** Returns the names of the browser's attempts, newest first. */
  attemptsIn(jar: Jar): string[] {
    return [...jar.keys()]
      .filter((name) => name.startsWith(this.#attempt))
      .sort()
      .reverse()
  }

  /** Returns a Set-Cookie value. Without `maxAge` (seconds) it is a session cookie. */
  set(name: string, value: string, maxAge?: number): string {
    return `${name}=${value}${this.#attributes}${maxAge === undefined ? '' : `; Max-Age=${maxAge}`}`
  }

  /** Returns a Set-Cookie value with an attempt. `maxAge`: seconds. */
  begin(id: string, sealed: string, maxAge: number): string {
    return `${this.attempt(id)}=${sealed}${this.#pending}; Max-Age=${maxAge}`
  }

  drop(name: string): string {
    return this.set(name, '', 0)
  }
}
