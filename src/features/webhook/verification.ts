import type { BodyBuffers } from '../../flow/body-buffers.js'
import type { Flow, FlowRequest } from '../../flow/flow.js'
import { refuse, type Verdict } from '../../flow/verdict.js'
import type { Clock } from '../../lib/clock.js'
import { defineErrors, messageOf } from '../../lib/errors.js'
import { hostPatterns } from '../../lib/host.js'
import type { KeptStateDraft, PolicyServices } from '../../policy/services.js'
import { SenderCertificates } from './certificates.js'
import { type PreparedSecret, type Provider, prepareSecrets } from './providers.js'
import { type ReplayMemory, replays } from './replays.js'
import { type Failure, type Finding, type WebhookRequest, webhookFailures } from './scheme.js'

/** Codes of answers to webhooks that are not let through. */
export const webhookErrors = defineErrors({
  WEBHOOK_UNVERIFIED: {
    status: 403,
    text: 'The request is not taken for one of the sender; some senders get another status.',
    help: 'Look at error.code of the results for the reason.'
  },
  WEBHOOK_SECRET_UNAVAILABLE: {
    status: 503,
    text: 'The secret that is shared with the sender cannot be used.',
    help: 'Write the secret of the module or of the vault anew.'
  },
  WEBHOOK_CERTIFICATE_UNAVAILABLE: {
    status: 503,
    text: 'The certificate of the sender could not be fetched.',
    help: 'Look whether Sluice reaches the sender; the sender delivers again.'
  },
  BODY_UNREADABLE: { text: 'The body cannot be read whole.', help: 'Look at the code of the answer for the reason.' }
})

/** Ports that URLs leave out. */
const USUAL_PORT = { https: 443, http: 80 } as const

/**
 * The URLs under which a sender may know the place that a request came to, for schemes that sign the URL.
 *
 * Path and query are those of the request line, untouched. Name and port are those of the edge: a name that its hostports
 * hold, with the ports that stand there; where an edge takes every host, the name that routing has found it by. A trusted
 * proxy may say that it is known by another name. The scheme is https, because senders reach an edge through TLS
 * wherever it ends, or http when this hop or a trusted proxy saw that. Senders and proxies disagree about ports, so each
 * name also stands without a port, and with the one of the request.
 */
function publicUrls(flow: Flow, request: FlowRequest): readonly string[] {
  const { headers, target } = request
  const path = rawTarget(request)
  const schemes =
    headers.get('x-forwarded-proto')?.toLowerCase() === 'http' ? (['https', 'http'] as const) : (['https'] as const)
  const urls = new Set<string>()
  for (const authority of new Set([target.authority, headers.get('x-forwarded-host') ?? target.authority])) {
    const name = authority.replace(PORT, '')
    for (const scheme of schemes) {
      urls.add(`${scheme}://${authority}${path}`)
      urls.add(`${scheme}://${name}${path}`)
      for (const port of portsOf(flow, name.toLowerCase(), USUAL_PORT[scheme])) {
        urls.add(`${scheme}://${name}:${port}${path}`)
      }
    }
  }
  return [...urls]
}

/** Public ports on which the edge has this name. */
function portsOf({ hosts, entry }: Flow, name: string, usual: number): readonly number[] {
  const patterns = hostPatterns(name)
  const held = hosts.filter(({ host }) => patterns.includes(host))
  return held.length === 0 ? [entry.publicPort ?? usual] : [usual, ...held.map(({ port }) => port)]
}

const PORT = /:\d*$/
const ABSOLUTE = /^https?:\/\/[^/?#]*/i

/** Path and query of the request line as they came. */
function rawTarget({ head }: FlowRequest): string {
  const { target } = head
  if (target.startsWith('/')) return target
  const rest = target.replace(ABSOLUTE, '')
  return rest.startsWith('/') ? rest : `/${rest}`
}

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
/** From here on a response says that the delivery was not taken. */
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
  readonly #replays: ReplayMemory
  #prepared: { readonly text: string; readonly secrets: readonly PreparedSecret[] } | undefined

  /** `name`: the sender's; part of the identity of what is remembered of it. */
  constructor(name: string, provider: Provider, services: PolicyServices, kept: KeptStateDraft) {
    this.#provider = provider
    this.#clock = services.clock
    this.#bodies = services.bodies
    this.#certificates = kept.keep(['webhook-certificates', name], () => new SenderCertificates(services.outbound))
    this.#replays = kept.keep(['webhook-replays', name], (identity) => services.service(replays).of(identity))
  }

  /** `text`: what is shared with the sender now, one secret a line; '' for a sender without. */
  async outcome(flow: Flow, text: string): Promise<Outcome> {
    const secrets = this.#secrets(text)
    const [first] = secrets
    if (first === undefined) return this.#unverified('SECRET_UNUSABLE')
    const { request } = flow
    if (request === undefined) return this.#unverified('SIGNATURE_MISSING')
    const body = await this.#bodies.request(flow, this.#provider.largestBody)
    if (!(body instanceof Uint8Array)) return { kind: 'unreadable', verdict: body }
    const seen = this.#seen(flow, request, body)
    const { unsigned, signed } = this.#provider
    const answer = await unsigned?.(seen, first.secret)
    if (answer !== undefined) return { kind: 'answered', verdict: answer }
    let [found, used] = [await first.verify(seen, this.#certificates), first.secret]
    for (let i = 1; i < secrets.length && typeof found === 'string'; i++) {
      const { secret, verify } = secrets[i] as PreparedSecret
      const other = await verify(seen, this.#certificates)
      if (typeof other !== 'string') [found, used] = [other, secret]
    }
    const finding = await this.#fresh(found, flow, seen.now)
    if (typeof finding === 'string') return this.#unverified(finding)
    const reply = await signed?.(seen, used)
    return reply === undefined ? { kind: 'verified' } : { kind: 'answered', verdict: reply }
  }

  /** Secrets change seldom: what was made of the last one is kept. Everybody could sign with an empty one. */
  #secrets(text: string): readonly PreparedSecret[] {
    if (this.#prepared?.text !== text) {
      const made = prepareSecrets(this.#provider, text)
      this.#prepared = { text, secrets: typeof made === 'string' ? [] : made }
    }
    return this.#prepared.secrets
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

  /** An attempt counts once, unless the upstream did not take it. */
  async #fresh(finding: Finding, flow: Flow, now: number): Promise<Finding> {
    if (typeof finding === 'string' || finding.once === undefined) return finding
    const { once } = finding
    const memory = this.#replays
    if (!(await memory.admit(once, now, REMEMBERED))) return 'REPLAYED'
    flow.onEnd(() => {
      if ((flow.response?.status ?? SERVER_ERROR) >= SERVER_ERROR) memory.release(once)
    })
    return finding
  }

  #unverified(failure: Failure): Outcome {
    return { kind: 'unverified', failure, verdict: verdictOf(failure, this.#provider) }
  }
}

/** What we lack is no fault of the sender, who will try again. */
function verdictOf(failure: Failure, { refusal = webhookErrors.WEBHOOK_UNVERIFIED.status }: Provider): Verdict {
  if (failure === 'SECRET_UNUSABLE') return refuse(webhookErrors.WEBHOOK_SECRET_UNAVAILABLE)
  if (failure === 'CERTIFICATE_UNAVAILABLE') return refuse(webhookErrors.WEBHOOK_CERTIFICATE_UNAVAILABLE)
  return refuse({ ...webhookErrors.WEBHOOK_UNVERIFIED, status: refusal })
}

/** What the action and the module publish of an outcome. */
export function published(outcome: Outcome): Readonly<Record<string, unknown>> {
  const failure = outcome.kind === 'unverified' ? outcome.failure : undefined
  const unreadable = outcome.kind === 'unreadable'
  return {
    verified: outcome.kind === 'verified',
    'error.code': unreadable ? webhookErrors.BODY_UNREADABLE.code : (failure ?? ''),
    'error.message': unreadable
      ? messageOf(webhookErrors.BODY_UNREADABLE)
      : failure === undefined
        ? ''
        : messageOf(webhookFailures[failure])
  }
}
