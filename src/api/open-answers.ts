import { Readable } from 'node:stream'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import type { Principal } from '../control/calls.js'
import { CALLER_LIMITS } from '../lib/caller-limits.js'
import { ApiError, apiErrors } from './errors.js'

/** Interval at which callers of open streams are authenticated again (ms): revoked rights end within a second. */
const ASKED_EVERY = 250
/** Seconds after which a caller with too many streams may try again: one of them may have ended by then. */
const ROOM_AFTER = 5

interface OpenAnswer {
  readonly request: FastifyRequest
  readonly reply: FastifyReply
  readonly principal: Principal
}

/**
 * Open streaming responses. Each is cut once its caller changes or is rejected: the key was revoked or deleted, its owner
 * deactivated or given another role, the session signed out or expired, or the address blocked. The callers are
 * authenticated again at an interval, which detects changes by every process on the store and in the file of keys.
 */
export class OpenAnswers {
  readonly #ask: (request: FastifyRequest) => Promise<Principal | undefined>
  readonly #open = new Set<OpenAnswer>()
  #timer: NodeJS.Timeout | undefined
  #asking = false

  /** `ask` returns the current caller of a request; undefined, or a rejection, if access is no longer allowed. */
  constructor(ask: (request: FastifyRequest) => Promise<Principal | undefined>) {
    this.#ask = ask
  }

  /** Watches every streaming response of `server` with a caller. */
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
    // Concurrent requests may have passed `mustHaveRoom` together.
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
