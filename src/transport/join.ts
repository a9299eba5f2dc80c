import type { Duplex } from 'node:stream'
import type { BytePipe, ConnectionFacts } from '../flow/exchange.js'
import type { DeadlineOwner, DeadlineTimer } from '../lib/deadline-timer.js'
import type { ListenLimits } from './contract.js'
import { carrierOf, copy, cut, ignore, isReset } from './pipes.js'

/** Result of joining two streams: both directions ended, an error on either side, or idle timeout. */
export type JoinEnd = 'complete' | 'broken' | 'idle'

/** Maximum silence in both directions of joined streams (ms); 0 for no limit. */
export interface JoinLimits {
  readonly idle: number
  /** Replaces a longer `idle` once one side has ended. */
  readonly halfClosed: number
  /** Checks these limits. */
  readonly timer: Pick<DeadlineTimer, 'add' | 'delete'>
}

/** The listener of a pipe. */
export interface PipeHost {
  readonly limits: Pick<ListenLimits, 'halfClosed'>
  /** Checks deadlines until they are deleted. */
  readonly deadlines: JoinLimits['timer']
  /** Returns whether the connection may become a pipe, see `Place.lasts`. */
  lasts(facts: ConnectionFacts): boolean | Promise<boolean>
}

/** Returns the limits of a connection of `host` joined with `pipe`. */
export function joinLimits({ limits, deadlines }: PipeHost, { idle = 0 }: BytePipe): JoinLimits {
  return { idle, halfClosed: limits.halfClosed ?? 0, timer: deadlines }
}

/** Called with the bytes of each direction. */
interface Counted {
  readonly fromA: (bytes: number) => void
  readonly fromB: (bytes: number) => void
}

/**
 * Joins two byte streams both ways with back-pressure. The end of one direction is passed on as a half-close; a break
 * in either, and silence that lasts too long, cuts both. `done` is called once, when nothing can flow any more. Both connections are
 * watched until they are closed, unless `limits` is undefined because the other end of one stream watches.
 */
export function join(
  a: Duplex,
  b: Duplex,
  limits: JoinLimits | undefined,
  done: (end: JoinEnd) => void,
  counted?: Counted
): void {
  new JoinedStreams(a, b, limits, done).start(counted)
}

/** Returns the shorter of two limits, where 0 means no limit. */
export function shorterLimit(one: number, other: number): number {
  return one === 0 || other === 0 ? Math.max(one, other) : Math.min(one, other)
}

class JoinedStreams implements DeadlineOwner {
  place = -1
  readonly #a: Duplex
  readonly #b: Duplex
  readonly #limits: JoinLimits | undefined
  readonly #done: (end: JoinEnd) => void
  /** Number of directions that have not ended. */
  #open = 2
  #over = false
  /** Number of chunks read and queues emptied. */
  #moves = 0
  #seen = -1
  #since = 0

  constructor(a: Duplex, b: Duplex, limits: JoinLimits | undefined, done: (end: JoinEnd) => void) {
    this.#a = a
    this.#b = b
    this.#limits = limits
    this.#done = done
  }

  start(counted: Counted | undefined): void {
    this.#direction(this.#a, this.#b, counted?.fromA)
    this.#direction(this.#b, this.#a, counted?.fromB)
    this.#limits?.timer.add(this)
  }

  checkDeadlines(now: number): void {
    const { idle, halfClosed, timer } = this.#limits as JoinLimits
    const [a, b] = [carrierOf(this.#a), carrierOf(this.#b)]
    if (a.destroyed && b.destroyed && this.#a.destroyed && this.#b.destroyed) {
      timer.delete(this)
      return
    }
    if (this.#moves !== this.#seen) {
      this.#seen = this.#moves
      this.#since = now
      return
    }
    const half = this.#open < 2 || a.destroyed || b.destroyed
    const allowed = half ? shorterLimit(idle, halfClosed) : idle
    if (allowed > 0 && now - this.#since >= allowed) this.#end('idle')
    else if ((half || a.isPaused() || b.isPaused()) && (isReset(a) || isReset(b))) this.#end('broken')
  }

  #direction(from: Duplex, to: Duplex, counted: ((bytes: number) => void) | undefined): void {
    const carried = (bytes: number): void => {
      this.#moves++
      counted?.(bytes)
    }
    to.on('drain', () => {
      this.#moves++
    })
    to.on('finish', () => this.#settle())
    // A stream that closed after its own end accepts no more data; that is an error, too.
    to.on('close', () => {
      if (!to.writableFinished || !to.readableEnded) this.#end('broken')
    })
    copy(from, to, carried, (complete) => {
      if (!complete) {
        this.#end('broken')
        return
      }
      this.#moves++
      to.end()
      this.#open--
      this.#settle()
    })
  }

  #settle(): void {
    if (this.#open === 0 && this.#a.writableFinished && this.#b.writableFinished) this.#end('complete')
  }

  #end(end: JoinEnd): void {
    if (!this.#over) {
      this.#over = true
      this.#a.on('error', ignore)
      this.#b.on('error', ignore)
      this.#done(end)
    }
    if (end !== 'complete') for (const stream of [this.#a, this.#b]) cutBoth(stream)
  }
}

/** Resets a stream, and its connection if the stream is already closed. */
function cutBoth(stream: Duplex): void {
  cut(stream)
  cut(carrierOf(stream))
}
