import type { BytePipe } from '../flow/exchange.js'
import { DialError, type Dialer } from '../transport/contract.js'
import { AbortList } from '../transport/deadlines.js'
import type { Server } from './server.js'

/** Delay before the next address is dialled (RFC 8305 5) (ms). */
const ATTEMPT_DELAY = 250
/** Time for which the first established connection waits for its request (ms). */
const KEPT = 5_000

type Why = Parameters<Dialer['open']>[0]

/**
 * Dials one of several addresses of a name. If it does not respond, the others are dialled one after another (RFC 8305). If another one
 * connects first, the attempt ends with `dial-outrun`, and the connection waits at its own server, so that each server keeps its own
 * requests, connections and health.
 */
export class PlaceDialer implements Dialer {
  readonly key: string
  readonly reusable: boolean
  readonly http2?: boolean
  readonly lenient?: boolean
  readonly #plain: Dialer
  readonly #others: () => readonly Server[]
  readonly #ready: BytePipe[] = []
  /** Server of this dialer; set once. */
  server: Server | undefined

  /** `others`: alternative servers, the best first. */
  constructor(plain: Dialer, others: () => readonly Server[]) {
    this.key = plain.key
    this.reusable = plain.reusable
    if (plain.http2 === true) this.http2 = true
    if (plain.lenient === true) this.lenient = true
    this.#plain = plain
    this.#others = others
  }

  async open(why: Why): Promise<BytePipe> {
    const ready = this.#takeReady()
    if (ready !== undefined) return ready
    // A health check dials this address alone.
    const others = why.client.listener === '' ? [] : this.#others()
    return others.length === 0 ? await this.#plain.open(why) : await new Race(this, others, why).result
  }

  /** Opens a connection to this address only. */
  openAlone(why: Why): Promise<BytePipe> {
    return this.#plain.open(why)
  }

  /** Keeps a connection for the next request. */
  keep(pipe: BytePipe): void {
    this.#ready.push(pipe)
    setTimeout(() => {
      const at = this.#ready.indexOf(pipe)
      if (at === -1) return
      this.#ready.splice(at, 1)
      pipe.destroy('client-gone')
    }, KEPT).unref()
  }

  #takeReady(): BytePipe | undefined {
    for (;;) {
      const pipe = this.#ready.shift()
      if (pipe === undefined || !pipe.duplex.destroyed) return pipe
    }
  }
}

/** Attempts of one dial. */
class Race {
  readonly result: Promise<BytePipe>
  readonly #own: PlaceDialer
  readonly #others: readonly Server[]
  readonly #why: Why
  readonly #rivals = new AbortList()
  #resolve: (pipe: BytePipe) => void = () => undefined
  #reject: (error: unknown) => void = () => undefined
  #next = 0
  #running = 0
  #over = false
  #ownFailure: unknown
  #ownEnded = false
  #timer: NodeJS.Timeout | undefined
  /** Stops avoiding the own server. */
  #arrived: (() => void) | undefined

  constructor(own: PlaceDialer, others: readonly Server[], why: Why) {
    this.#own = own
    this.#others = others
    this.#why = why
    this.result = new Promise((resolve, reject) => {
      this.#resolve = resolve
      this.#reject = reject
    })
    own.openAlone(why).then(
      (pipe) => this.#ownOpened(pipe),
      (error: unknown) => this.#ownFailed(error)
    )
    this.#wait()
  }

  #ownOpened(pipe: BytePipe): void {
    if (this.#over) {
      this.#arrived?.()
      pipe.destroy('client-gone')
      return
    }
    this.#end()
    this.#resolve(pipe)
  }

  #ownFailed(error: unknown): void {
    this.#ownEnded = true
    if (this.#over) {
      this.#arrived?.()
      this.#report(this.#own.server, error)
      return
    }
    this.#ownFailure = error
    // A client that disconnected needs no other address.
    if (this.#why.signal.aborted !== undefined) this.#lost()
    else this.#advance()
  }

  #advance(): void {
    if (this.#over) return
    const other = this.#others[this.#next]
    if (other !== undefined) {
      this.#next++
      this.#start(other)
    } else if (this.#ownEnded && this.#running === 0) this.#lost()
  }

  #start(other: Server): void {
    const { dialer } = other
    if (!(dialer instanceof PlaceDialer)) return
    this.#running++
    dialer.openAlone({ ...this.#why, signal: this.#rivals }).then(
      (pipe) => this.#rivalOpened(other, dialer, pipe),
      (error: unknown) => {
        this.#running--
        if (this.#over) return
        this.#report(other, error)
        this.#advance()
      }
    )
    this.#wait()
  }

  #rivalOpened(other: Server, dialer: PlaceDialer, pipe: BytePipe): void {
    this.#running--
    if (this.#over || this.#why.signal.aborted !== undefined) {
      pipe.destroy('client-gone')
      return
    }
    this.#end()
    dialer.keep(pipe)
    const { server } = this.#own
    const arrived = server?.outrun(other)
    if (this.#ownEnded) {
      arrived?.()
      this.#report(server, this.#ownFailure)
    } else this.#arrived = arrived
    this.#reject(new DialError('dial-outrun', `${other.name} answered first`))
  }

  #report(server: Server | undefined, error: unknown): void {
    if (error instanceof DialError) server?.failed(error.failure)
  }

  #lost(): void {
    this.#end()
    this.#reject(this.#ownFailure)
  }

  #wait(): void {
    clearTimeout(this.#timer)
    this.#timer = setTimeout(() => this.#advance(), ATTEMPT_DELAY)
  }

  #end(): void {
    this.#over = true
    clearTimeout(this.#timer)
    this.#rivals.abort('client-gone')
  }
}
