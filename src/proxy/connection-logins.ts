import type { ConnectionFacts, Exchange } from '../flow/exchange.js'
import type { HeaderList } from '../flow/headers.js'
import { type ClientTransport, type Dialer, privateKey } from '../transport/contract.js'

const AUTHORIZATION = 'authorization'
const AUTHENTICATE = 'www-authenticate'
/** Credentials with a scheme that authenticates the connection instead of the request (RFC 4559 6; also NTLM). */
const CREDENTIALS = /^(?:ntlm|negotiate|kerberos)(?:[ \t]|$)/i
/** Challenge with such a scheme. */
const CHALLENGE = /(?:^|,)[ \t]*(?:ntlm|negotiate|kerberos)[ \t]*(?:$|[ ,=])/i

/** Upstream connections of one client connection with a connection login. */
class ConnectionLogin {
  readonly #number: number
  /** Keys of the pools of this client connection. */
  readonly keys = new Set<string>()
  #busy = false
  readonly #waiting = new Set<() => void>()

  constructor(number: number) {
    this.#number = number
  }

  /** Returns a dialer to the same upstream whose connections are not shared with other client connections. */
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
   * Serializes requests: a login consists of several requests on one connection. `onEnd` calls its argument when the request has finished.
   * A request leaves the queue if its client disconnects or after `patience` milliseconds (0: no limit).
   */
  inTurn(
    { signal }: Pick<Exchange, 'signal'>,
    onEnd: (run: () => void) => void,
    patience: number,
    run: (late: boolean) => void
  ): void {
    const begin = (): void => {
      this.#busy = true
      // The upstream connection is free once the handler that ended the request has returned.
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
 * Isolates connection logins. If a scheme authenticates the connection, every request on it counts as its user's; so a client connection
 * that logs in, or is challenged to, gets separate upstream connections, which close with it.
 */
export class ConnectionLogins {
  readonly #transport: Pick<ClientTransport, 'endUpstream'>
  readonly #logins = new Map<ConnectionFacts, ConnectionLogin>()
  #count = 0

  constructor(transport: Pick<ClientTransport, 'endUpstream'>) {
    this.#transport = transport
  }

  /** Returns the login of a client connection for a request with these fields; undefined if it has none. */
  of(connection: ConnectionFacts, fields: HeaderList): ConnectionLogin | undefined {
    if (this.#logins.size > 0) {
      const login = this.#logins.get(connection)
      if (login !== undefined) return login
    }
    return holds(fields, AUTHORIZATION, CREDENTIALS) ? this.#begin(connection) : undefined
  }

  /** Records a 401 of an upstream with these fields. */
  challenged(connection: ConnectionFacts, fields: HeaderList): void {
    if (!this.#logins.has(connection) && holds(fields, AUTHENTICATE, CHALLENGE)) this.#begin(connection)
  }

  /** Closes the upstream connections of a closed client connection. */
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

/** Returns true if a field with this lower-case name has a matching value. */
function holds(fields: HeaderList, name: string, value: RegExp): boolean {
  for (let i = 0; i < fields.length; i += 2) {
    const one = fields[i] as string
    if (one.length === name.length && one.toLowerCase() === name && value.test(fields[i + 1] as string)) return true
  }
  return false
}
