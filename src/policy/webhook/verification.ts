import type { Flow, FlowRequest } from '../../flow/flow.js'
import { refuse, type Verdict } from '../../flow/verdict.js'
import type { Clock } from '../../lib/clock.js'
import type { BodyBuffers } from '../body-buffers.js'
import type { KeptStateDraft, PolicyServices } from '../services.js'
import { SenderCertificates } from './certificates.js'
import { FAILURES, type Failure, type Finding } from './finding.js'
import type { Provider } from './provider.js'
import { publicUrls, rawTarget } from './public-urls.js'
import { Replays } from './replays.js'
import type { Verify, WebhookRequest } from './scheme.js'

/** How a request was found. */
export type Outcome =
  | { readonly kind: 'verified' }
  /** A question of the sender, with what it is answered by. */
  | { readonly kind: 'answered'; readonly verdict: Verdict }
  | { readonly kind: 'unverified'; readonly failure: Failure; readonly verdict: Verdict }
  /** Its body cannot be had whole; it may be gone, so nothing can follow but this verdict. */
  | { readonly kind: 'unreadable'; readonly verdict: Verdict }

/** Twice what any sender that marks its attempts has as tolerance, so that a mark outlives its timestamp. Milliseconds. */
const REMEMBERED = 600_000
/** From here on a response says that nobody took the delivery. */
const SERVER_ERROR = 500

/**
 * Verifies that requests come from one sender: reads the body whole, looks at it with the sender's scheme, answers its
 * questions. The body stays in the flow as the bytes that came. One implementation for the action and the module.
 */
export class Verification {
  readonly #provider: Provider
  readonly #clock: Clock
  readonly #bodies: BodyBuffers
  readonly #certificates: SenderCertificates
  readonly #replays: Replays
  #prepared: { readonly secret: string; readonly verify: Verify | undefined } | undefined

  /** `name`: the sender's; part of the identity of what is remembered of it. */
  constructor(name: string, provider: Provider, services: PolicyServices, kept: KeptStateDraft) {
    this.#provider = provider
    this.#clock = services.clock
    this.#bodies = services.bodies
    this.#certificates = kept.keep(['webhook-certificates', name], () => new SenderCertificates(services.outbound))
    this.#replays = kept.keep(['webhook-replays', name], () => new Replays())
  }

  /** `secret`: what is shared with the sender now; '' for a sender without. */
  async outcome(flow: Flow, secret: string): Promise<Outcome> {
    const verify = this.#verify(secret)
    if (verify === undefined) return this.#unverified('SECRET_UNUSABLE')
    const { request } = flow
    if (request === undefined) return this.#unverified('SIGNATURE_MISSING')
    const body = await this.#bodies.request(flow)
    if (!(body instanceof Uint8Array)) return { kind: 'unreadable', verdict: body }
    const seen = this.#seen(flow, request, body)
    const { unsigned, signed } = this.#provider
    const answer = unsigned?.(seen, secret)
    if (answer !== undefined) return { kind: 'answered', verdict: answer }
    const found = verify(seen, this.#certificates)
    const finding = this.#fresh(found instanceof Promise ? await found : found, flow, seen.now)
    if (typeof finding === 'string') return this.#unverified(finding)
    const reply = signed?.(seen, secret)
    return reply === undefined ? { kind: 'verified' } : { kind: 'answered', verdict: reply }
  }

  /** Secrets change seldom: what was made of the last one is kept. Everybody could sign with an empty one. */
  #verify(secret: string): Verify | undefined {
    if (secret === '' && this.#provider.withoutSecret !== true) return undefined
    if (this.#prepared?.secret !== secret) {
      const made = this.#provider.scheme(secret)
      this.#prepared = { secret, verify: typeof made === 'string' ? undefined : made }
    }
    return this.#prepared?.verify
  }

  #seen(flow: Flow, request: FlowRequest, body: Uint8Array): WebhookRequest {
    const { head, headers } = request
    return {
      method: head.method,
      target: rawTarget(request),
      urls: () => publicUrls(flow, request),
      headers,
      body,
      now: this.#clock.wall()
    }
  }

  /** An attempt counts once, unless nobody took it. */
  #fresh(finding: Finding, flow: Flow, now: number): Finding {
    if (typeof finding === 'string' || finding.once === undefined) return finding
    const { once } = finding
    const replays = this.#replays
    if (!replays.admit(once, now, REMEMBERED)) return 'REPLAYED'
    flow.onEnd(() => {
      if ((flow.response?.status ?? SERVER_ERROR) >= SERVER_ERROR) replays.release(once)
    })
    return finding
  }

  #unverified(failure: Failure): Outcome {
    return { kind: 'unverified', failure, verdict: verdictOf(failure, this.#provider) }
  }
}

/** What we lack is no fault of the sender, who will try again. */
function verdictOf(failure: Failure, { refusal = 403 }: Provider): Verdict {
  if (failure === 'SECRET_UNUSABLE') return refuse(503, 'WEBHOOK_SECRET_UNAVAILABLE')
  if (failure === 'CERTIFICATE_UNAVAILABLE') return refuse(503, 'WEBHOOK_CERTIFICATE_UNAVAILABLE')
  return refuse(refusal, 'WEBHOOK_UNVERIFIED')
}

/** What the action and the module publish of an outcome. */
export function published(outcome: Outcome): Readonly<Record<string, unknown>> {
  const failure = outcome.kind === 'unverified' ? outcome.failure : undefined
  const unreadable = outcome.kind === 'unreadable'
  return {
    verified: outcome.kind === 'verified',
    'error.code': unreadable ? 'BODY_UNREADABLE' : (failure ?? ''),
    'error.message': unreadable ? 'the body cannot be read whole' : failure === undefined ? '' : FAILURES[failure]
  }
}
