import type { ConnectionFacts, Exchange } from '../flow/exchange.js'
import type { HeaderList } from '../flow/headers.js'
import { type ClientTransport, type Dialer, privateKey } from '../transport/contract.js'

const AUTHORIZATION = 'authorization'
const AUTHENTICATE = 'www-authenticate'
/** Schemes that log a connection in, and not one request (RFC 4559 6; NTLM does the same). */
const CREDENTIALS = /^(?:ntlm|negotiate|kerberos)(?:[ \t]|$)/i
const CHALLENGE = /(?:^|,)[ \t]*(?:ntlm|negotiate|kerberos)[ \t]*(?:$|[ ,=])/i

/** The upstream connections of one client connection that logs in there. */
class ConnectionLogin {
  readonly #number: number
  /** Keys of the pools that only this client connection uses. */
  readonly keys = new Set<string>()
  #busy = false
  readonly #waiting = new Set<() => void>()

  constructor(number: number) {
    this.#number = number
  }

  /** The same upstream, by connections that no other client connection gets. */
  dialer(dialer: Dialer): Dialer {
    const key = privateKey(dialer.key, this.#number)
    this.keys.add(key)
    return {
      key,
      reusable: dialer.reusable,
      lenient: dialer.lenient === true,
      get http2() {
        return dialer.http2 === true
      },
      open: (why) => dialer.open(why)
    }
  }

  /**
   * Runs requests one after the other: they share a connection whose login consists of several. `onEnd` calls its argument when the
   * request is over. A request whose client has gone, or that has waited for `patience` milliseconds (0: for ever), waits no longer.
   */
  inTurn(
    { signal }: Pick<Exchange, 'signal'>,
    onEnd: (run: () => void) => void,
    patience: number,
    run: (late: boolean) => void
  ): void {
    const begin = (): void => {
      this.#busy = true
      // The upstream connection is free once what ends the request has returned.
      onEnd(() => setImmediate(this.#next))
      run(false)
    }
    if (!this.#busy) {
      begin()
      return
    }
    let stop = (): void => undefined
    const turn = (): void => {
      stop()
      begin()
    }
    const giveUp = (): void => {
      if (!this.#waiting.delete(turn)) return
      stop()
      run(true)
    }
    this.#waiting.add(turn)
    const timer = patience > 0 ? setTimeout(giveUp, patience) : undefined
    const unheard = signal.onAbort(giveUp)
    stop = () => {
      clearTimeout(timer)
      unheard()
    }
  }

  readonly #next = (): void => {
    this.#busy = false
    const [turn] = this.#waiting
    if (turn === undefined) return
    this.#waiting.delete(turn)
    turn()
  }
}

/**
 * Keeps logins of connections apart. Where a scheme authenticates the connection, any request that is sent on it counts as its user's;
 * so a client connection that logs in, or is asked to, has upstream connections of its own, which end with it.
 */
export class ConnectionLogins {
  readonly #transport: Pick<ClientTransport, 'endUpstream'>
  readonly #logins = new Map<ConnectionFacts, ConnectionLogin>()
  #count = 0

  constructor(transport: Pick<ClientTransport, 'endUpstream'>) {
    this.#transport = transport
  }

  /** The login of a client connection that sends a request with these fields; undefined: it has none. */
  of(connection: ConnectionFacts, fields: HeaderList): ConnectionLogin | undefined {
    if (this.#logins.size > 0) {
      const login = this.#logins.get(connection)
      if (login !== undefined) return login
    }
    return holds(fields, AUTHORIZATION, CREDENTIALS) ? this.#begin(connection) : undefined
  }

  /** An upstream has answered 401 with these fields. */
  challenged(connection: ConnectionFacts, fields: HeaderList): void {
    if (!this.#logins.has(connection) && holds(fields, AUTHENTICATE, CHALLENGE)) this.#begin(connection)
  }

  /** A client connection has closed: nothing uses its upstream connections any more. */
  closed(connection: ConnectionFacts): void {
    const login = this.#logins.get(connection)
    if (login === undefined) return
    this.#logins.delete(connection)
    for (const key of login.keys) this.#transport.endUpstream(key)
  }

  #begin(connection: ConnectionFacts): ConnectionLogin {
    const login = new ConnectionLogin(++this.#count)
    this.#logins.set(connection, login)
    return login
  }
}

/** Has a field of this lower-case name a value that fits? */
function holds(fields: HeaderList, name: string, value: RegExp): boolean {
  for (let i = 0; i < fields.length; i += 2) {
    const one = fields[i] as string
    if (one.length === name.length && one.toLowerCase() === name && value.test(fields[i + 1] as string)) return true
  }
  return false
}
