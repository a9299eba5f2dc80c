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

/** Error codes of refused webhooks. */
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

/** Default ports that URLs omit. */
const USUAL_PORT = { https: 443, http: 80 } as const

/**
 * Returns the URLs under which a sender may know the endpoint of a request, for schemes that sign the URL.
 *
 * Path and query are those of the request line, unchanged. Name and port are those of the edge: a name of its hostports with their ports;
 * for a catch-all edge, the name used for routing. A trusted proxy may report another name. The scheme is https, because senders reach an
 * edge over TLS wherever it is terminated, or http if this hop or a trusted proxy saw that. Senders and proxies disagree about ports, so
 * each name is also used without a port, and with that of the request.
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

/** Returns the public ports on which the edge has this name. */
function portsOf({ hosts, entry }: Flow, name: string, usual: number): readonly number[] {
  const patterns = hostPatterns(name)
  const held = hosts.filter(({ host }) => patterns.includes(host))
  return held.length === 0 ? [entry.publicPort ?? usual] : [usual, ...held.map(({ port }) => port)]
}

const PORT = /:\d*$/
const ABSOLUTE = /^https?:\/\/[^/?#]*/i

/** Returns path and query of the request line, unchanged. */
function rawTarget({ head }: FlowRequest): string {
  const { target } = head
  if (target.startsWith('/')) return target
  const rest = target.replace(ABSOLUTE, '')
  return rest.startsWith('/') ? rest : `/${rest}`
}

/** Result of verifying a request. */
export type Outcome =
  | { readonly kind: 'verified' }
  /** Test by the sender, with its response. */
  | { readonly kind: 'answered'; readonly verdict: Verdict }
  | { readonly kind: 'unverified'; readonly failure: Failure; readonly verdict: Verdict }
  /** The complete body is unavailable, and may be lost, so only this verdict can follow. */
  | { readonly kind: 'unreadable'; readonly verdict: Verdict }

/**
 * Time for which delivery marks are stored (ms): twice the largest tolerance of a sender with marks, so that a mark outlives its timestamp.
 */
const REMEMBERED = 600_000
/** Lowest status that means that the delivery failed. */
const SERVER_ERROR = 500

/**
 * Verifies requests of one sender: reads the complete body, verifies its signature and responds to tests. The original body stays in the
 * flow. Used by the action and the module.
 */
export class Verification {
  readonly #provider: Provider
  readonly #clock: Clock
  readonly #bodies: BodyBuffers
  readonly #certificates: SenderCertificates
  readonly #replays: ReplayMemory
  #prepared: { readonly text: string; readonly secrets: readonly PreparedSecret[] } | undefined

  /** `name`: the sender's; part of the identity of stored deliveries. */
  constructor(name: string, provider: Provider, services: PolicyServices, kept: KeptStateDraft) {
    this.#provider = provider
    this.#clock = services.clock
    this.#bodies = services.bodies
    this.#certificates = kept.keep(['webhook-certificates', name], () => new SenderCertificates(services.outbound))
    this.#replays = kept.keep(['webhook-replays', name], (identity) => services.service(replays).of(identity))
  }

  /** Verifies a request. `text`: current secrets, one per line; '' for a sender without. */
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

  /** Returns the prepared secrets, cached because they change rarely. An empty secret is rejected: every client could sign with it. */
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

  /** Refuses a repeated attempt, unless the upstream failed. */
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

/** Returns the verdict of a failure. An unavailable secret is not the sender's fault, and the sender will retry. */
function verdictOf(failure: Failure, { refusal }: Provider): Verdict {
  if (failure === 'SECRET_UNUSABLE') return refuse(webhookErrors.WEBHOOK_SECRET_UNAVAILABLE)
  if (failure === 'CERTIFICATE_UNAVAILABLE') return refuse(webhookErrors.WEBHOOK_CERTIFICATE_UNAVAILABLE)
  if (refusal === undefined) return refuse(webhookErrors.WEBHOOK_UNVERIFIED)
  // A sender that tests the rejection of wrong signatures expects an empty response.
  const { code } = webhookErrors.WEBHOOK_UNVERIFIED
  return { kind: 'respond', status: refusal, headers: [], code, body: new Uint8Array() }
}

/** Returns the published results of an outcome. */
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
