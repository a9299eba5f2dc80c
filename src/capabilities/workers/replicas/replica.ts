import { Mutex } from '../../../lib/concurrency.js'
import type { SecretValues, Unit } from '../../../runtime/plan.js'
import type { Change } from '../../../runtime/plan-changes.js'
import { type ServingParts, type Staged, stage } from '../../../runtime/stage.js'
import type { FromReplica, ToReplica } from './protocol.js'

/** Interval of a busy worker's signs of life (ms). */
const ALIVE = 500

type Ready = Extract<Staged, { ok: true }>

/**
 * The plan in a worker that only serves it: applies changes in order. A prepared change serves once committed; an error in a
 * committed change ends the worker, because it would serve an outdated plan.
 */
export class Replica {
  readonly #parts: ServingParts
  readonly #post: (message: FromReplica) => void
  readonly #mutex = new Mutex()
  #pieces: { readonly units: Map<string, Unit>; readonly secrets: Map<string, string> } | undefined = {
    units: new Map(),
    secrets: new Map()
  }
  #aside: { readonly order: number; readonly ready: Ready } | undefined

  constructor(parts: ServingParts, post: (message: FromReplica) => void) {
    this.#parts = parts
    this.#post = post
  }

  /** Resolves when the message is handled; rejects when the thread can serve no longer. */
  receive(message: ToReplica): Promise<void> {
    return this.#mutex.run(async () => {
      const alive = setInterval(() => this.#post({ kind: 'alive' }), ALIVE)
      try {
        await this.#handle(message)
      } finally {
        clearInterval(alive)
      }
    })
  }

  async #handle(message: ToReplica): Promise<void> {
    switch (message.kind) {
      case 'plan':
        for (const [key, unit] of message.put) this.#pieces?.units.set(key, unit)
        for (const [name, value] of message.secrets) this.#pieces?.secrets.set(name, value)
        return
      case 'begin':
        return await this.#begin(message.number, message.revision)
      case 'prepare':
        return await this.#prepare(message.order, message.change, message.secrets)
      case 'commit':
        return await this.#commit(message.order, message.revision)
      case 'abandon':
        if (this.#aside?.order === message.order) this.#takeAside()?.ready.abandon()
        return
      case 'apply':
        return await this.#apply(message.change, message.secrets, message.revision)
      case 'revision':
        this.#parts.holder.swap(this.#parts.holder.current().at(message.revision))
    }
  }

  async #begin(number: number, revision: number): Promise<void> {
    const { units = new Map(), secrets = new Map() } = this.#pieces ?? {}
    this.#pieces = undefined
    await this.#apply({ from: this.#number, to: number, put: [...units], drop: [] }, secrets, revision)
  }

  async #prepare(order: number, change: Change, secrets: SecretValues): Promise<void> {
    const staged = await this.#staged(change, secrets, false)
    if (typeof staged === 'string') this.#post({ kind: 'unprepared', order, reason: staged })
    else {
      this.#aside = { order, ready: staged }
      this.#post({ kind: 'prepared', order })
    }
  }

  async #commit(order: number, revision: number): Promise<void> {
    const aside = this.#takeAside()
    if (aside?.order !== order) throw new Error('a change is committed that this thread could not prepare')
    await this.#serve(aside.ready, revision)
  }

  async #apply(change: Change, secrets: SecretValues, revision: number): Promise<void> {
    const staged = await this.#staged(change, secrets, true)
    if (typeof staged === 'string') throw new Error(`a committed change cannot be applied: ${staged}`)
    await this.#serve(staged, revision)
  }

  /** Compiles a change beside the running plan; returns an error message on failure. */
  async #staged(change: Change, secrets: SecretValues, tolerant: boolean): Promise<Ready | string> {
    try {
      const staged = await stage(this.#parts, change, secrets, tolerant)
      if (staged.ok) return staged
      const [problem] = staged.problems
      const [port] = staged.ports
      if (port !== undefined) return `${port.unit} cannot listen: ${port.reason}`
      return `${problem?.key ?? 'a unit'} does not compile in this thread`
    } catch (error) {
      return String(error)
    }
  }

  async #serve(ready: Ready, revision: number): Promise<void> {
    await ready.swap(revision)
    this.#post({ kind: 'serving', number: this.#number })
  }

  #takeAside(): { readonly order: number; readonly ready: Ready } | undefined {
    const aside = this.#aside
    this.#aside = undefined
    return aside
  }

  get #number(): number {
    return this.#parts.holder.current().plan.number
  }
}
