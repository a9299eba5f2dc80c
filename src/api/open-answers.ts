import { Readable } from 'node:stream'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import type { Principal } from '../control/calls.js'
import { CALLER_LIMITS } from '../lib/caller-limits.js'
import { ApiError, apiErrors } from './errors.js'

/** Interval at which callers of open answers are authenticated again, in milliseconds: a right that was taken back ends within a second. */
const ASKED_EVERY = 250
/** Seconds after which a caller with too many streams may try again: one of them may have ended by then. */
const ROOM_AFTER = 5

interface OpenAnswer {
  readonly request: FastifyRequest
  readonly reply: FastifyReply
  readonly principal: Principal
}

/**
 * Answers that are streams, as long as they are being sent. Each is cut as soon as its caller is another one, or none: the key was
 * revoked or deleted, its owner switched off or given another role, the session signed out or too old, or the address excluded. The
 * callers are authenticated again at an interval, which finds a change of every process on the store and of the file of keys.
 */
export class OpenAnswers {
  readonly #ask: (request: FastifyRequest) => Promise<Principal | undefined>
  readonly #open = new Set<OpenAnswer>()
  #timer: NodeJS.Timeout | undefined
  #asking = false

  /** `ask`: who the caller of a request is now; undefined, or a rejection: none that may come in. */
  constructor(ask: (request: FastifyRequest) => Promise<Principal | undefined>) {
    this.#ask = ask
  }

  /** Watches every answer of `server` that is a stream and has a caller. */
  watch(server: FastifyInstance): void {
    server.addHook('onSend', async (request, reply, payload) => {
      const { principal } = request
      if (payload instanceof Readable && principal !== undefined) this.#add({ request, reply, principal })
      return payload
    })
  }

  /** Fails with an ApiError `STREAMS_LIMITED` when the caller follows as many streams as it may. */
  mustHaveRoom({ id, role }: Principal): void {
    const { streams } = CALLER_LIMITS[role]
    if (this.#count(id) < streams) return
    const message = `The caller has ${streams} streams open, which is the most.`
    throw new ApiError(apiErrors.STREAMS_LIMITED, message, {}, { 'retry-after': String(ROOM_AFTER) })
  }

  #count(id: string): number {
    let open = 0
    for (const { principal } of this.#open) if (principal.id === id) open++
    return open
  }

  #add(answer: OpenAnswer): void {
    const { id, role } = answer.principal
    this.#open.add(answer)
    // Requests that came at once have passed `mustHaveRoom` together.
    if (this.#count(id) > CALLER_LIMITS[role].streams) answer.reply.raw.destroy()
    this.#timer ??= setInterval(() => void this.#askAll(), ASKED_EVERY).unref()
    answer.reply.raw.once('close', () => {
      this.#open.delete(answer)
      if (this.#open.size > 0) return
      clearInterval(this.#timer)
      this.#timer = undefined
    })
  }

  async #askAll(): Promise<void> {
    if (this.#asking) return
    this.#asking = true
    // Several streams of one browser are one question.
    const asked = new Map<string, Promise<Principal | undefined>>()
    const look = async ({ request, reply, principal }: OpenAnswer) => {
      const { authorization, cookie } = request.headers
      const key = JSON.stringify([request.socket.remoteAddress, authorization, cookie])
      const asking = asked.get(key) ?? this.#ask(request).catch(() => undefined)
      asked.set(key, asking)
      const now = await asking
      if (now?.id !== principal.id || now.role !== principal.role) reply.raw.destroy()
    }
    await Promise.all([...this.#open].map(look))
    this.#asking = false
  }
}
